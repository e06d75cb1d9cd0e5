#include "cache_entry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <utility>

namespace ringshard::data {

namespace fs = std::filesystem;

namespace {

// Makers of a file work in folders with this after its name, and something of their own.
constexpr std::string_view work_mark = ".making-";

fs::path lock_of(const fs::path& file) { return file.string() + ".lock"; }

// The descriptor of the file locked, -1 if it cannot be made. Another user's cannot be written to,
// and need not be, but on NFS.
int open_lock(const fs::path& file) {
    const int lock = ::open(lock_of(file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return lock < 0 && errno == EACCES ? ::open(lock_of(file).c_str(), O_RDONLY | O_CLOEXEC) : lock;
}

// Whether the lock is held now. Not on file systems without locks.
bool take_lock(int lock, int operation) {
    int result = 0;
    do result = flock(lock, operation);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

// The file that a work folder is for, if it is one.
std::optional<fs::path> made_in(const fs::path& work) {
    const std::string name = work.filename().string();
    const size_t mark = name.find(work_mark);
    if (mark == std::string::npos) return std::nullopt;
    return work.parent_path() / name.substr(0, mark);
}

}  // namespace

void remove_leftovers(const fs::path& cache) {
    std::error_code ignored;
    for (const fs::path& work : folder_entries(cache, ignored)) {
        const auto file = made_in(work);
        if (!file) continue;
        const int lock = open_lock(*file);
        if (lock < 0) continue;
        if (take_lock(lock, LOCK_EX | LOCK_NB)) fs::remove_all(work, ignored);
        close(lock);
    }
}

CacheEntry::CacheEntry(fs::path file, fs::path work, int lock)
    : file_(std::move(file)), work_(std::move(work)), lock_(lock) {}

CacheEntry::CacheEntry(CacheEntry&& other) noexcept
    : file_(std::move(other.file_)),
      work_(std::exchange(other.work_, {})),
      lock_(std::exchange(other.lock_, -1)) {}

CacheEntry::~CacheEntry() {
    std::error_code ignored;
    if (!work_.empty()) fs::remove_all(work_, ignored);
    if (lock_ >= 0) close(lock_);
}

Expected<CacheEntry> CacheEntry::claim(const fs::path& file) {
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    const int lock = open_lock(file);
    if (lock < 0) return io_failure(lock_of(file), "cannot be made");
    CacheEntry entry(file, {}, lock);
    take_lock(lock, LOCK_EX);
    std::string work = concat(file.string(), work_mark, "XXXXXX");
    if (mkdtemp(work.data()) == nullptr) return io_failure(work, "cannot be made");
    entry.work_ = work;
    return entry;
}

std::optional<Failure> CacheEntry::publish() const {
    if (std::rename((work_ / "result").c_str(), file_.c_str()) != 0)
        return io_failure(file_, "cannot be put in place");
    return flush_folder(file_.parent_path());
}

std::string hash_of(std::string_view text) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(16) << hash.high64 << std::setw(16)
           << hash.low64;
    return digits.str();
}

}  // namespace ringshard::data
