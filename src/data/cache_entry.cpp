#include "cache_entry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <utility>

#include "ringshard/comm/agree.hpp"

namespace ringshard::data {

namespace fs = std::filesystem;

namespace {

// Suffix of work folders, before the host and a random part.
constexpr std::string_view making = ".making-";
constexpr size_t own_letters = 6;

fs::path lock_of(const fs::path& file) { return file.string() + ".lock"; }

// Returns the descriptor of the file to lock, -1 if it cannot be created. Another user's file is
// not writable, which a lock needs only on NFS.
int open_lock(const fs::path& file) {
    const int lock = ::open(lock_of(file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return lock < 0 && errno == EACCES ? ::open(lock_of(file).c_str(), O_RDONLY | O_CLOEXEC) : lock;
}

// Returns true if this process now holds the lock; false on file systems without locks.
bool take_lock(int lock, int operation) {
    int result = 0;
    do result = flock(lock, operation);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

// A work folder in the cache.
struct Making {
    fs::path folder;
    fs::path file;     // target file
    std::string host;  // of the process that makes it
};
std::optional<Making> as_making(const fs::path& folder) {
    const std::string name = folder.filename().string();
    const size_t mark = name.find(making);
    const size_t host = mark + making.size();
    if (mark == std::string::npos || name.size() < host + own_letters + 1) return std::nullopt;
    return Making{folder, folder.parent_path() / name.substr(0, mark),
                  name.substr(host, name.size() - own_letters - 1 - host)};
}

// Returns true if the maker has written nothing for an hour. For makers on other hosts, since locks
// may hold only within one host.
bool is_still(const fs::path& folder) {
    constexpr auto long_for_a_maker = std::chrono::hours(1);
    std::error_code error;
    auto newest = fs::last_write_time(folder, error);
    for (const fs::path& entry : folder_entries(folder, error))
        newest = std::max(newest, fs::last_write_time(entry, error));
    return !error && fs::file_time_type::clock::now() - newest > long_for_a_maker;
}

}  // namespace

void remove_leftovers(const fs::path& cache) {
    std::error_code ignored;
    for (const fs::path& folder : folder_entries(cache, ignored)) {
        const auto found = as_making(folder);
        if (!found || (found->host != comm::host_name() && !is_still(folder))) continue;
        const int lock = open_lock(found->file);
        if (lock < 0) continue;
        if (take_lock(lock, LOCK_EX | LOCK_NB)) fs::remove_all(folder, ignored);
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
    std::string work = format_text("{}{}{}-{}", file.string(), making, comm::host_name(),
                                   std::string(own_letters, 'X'));
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
