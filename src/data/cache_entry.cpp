#include "cache_entry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <iomanip>
#include <utility>

namespace ringshard::data {

namespace fs = std::filesystem;

namespace {

// Makers of a file work in folders of this name.
std::string work_prefix(const fs::path& file) { return file.filename().string() + ".making-"; }

void remove_leftovers(const fs::path& file) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(file.parent_path(), ignored))
        if (entry.path().filename().string().starts_with(work_prefix(file)))
            fs::remove_all(entry.path(), ignored);
}

}  // namespace

CacheEntry::CacheEntry(fs::path file, int lock)
    : file_(std::move(file)),
      work_(file_.parent_path() / concat(work_prefix(file_), getpid())),
      lock_(lock) {}

CacheEntry::CacheEntry(CacheEntry&& other) noexcept
    : file_(std::move(other.file_)),
      work_(std::exchange(other.work_, {})),
      lock_(std::exchange(other.lock_, -1)) {}

CacheEntry::~CacheEntry() {
    std::error_code ignored;
    if (!work_.empty()) fs::remove_all(work_, ignored);
    if (lock_ >= 0) close(lock_);
}

Expected<CacheEntry> CacheEntry::claim(const fs::path& file, bool& waits) {
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    const fs::path lock_file = file.string() + ".lock";
    const int lock = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0) return io_failure(lock_file, "cannot be made");
    // On file systems without locks two makers may do the same work; the files stay whole.
    waits = flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (waits) flock(lock, LOCK_EX);
    CacheEntry entry(file, lock);
    remove_leftovers(file);
    fs::create_directories(entry.work_, error);
    if (error) return io_failure(entry.work_, "cannot be made");
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
