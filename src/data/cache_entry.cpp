#include "cache_entry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
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

// Returns the bytes in the work folders of a file and the time of the last change there.
using Written = std::pair<uintmax_t, fs::file_time_type>;
Written written_for(const fs::path& file) {
    Written written{0, fs::file_time_type::min()};
    std::error_code ignored;
    for (const fs::path& folder : folder_entries(file.parent_path(), ignored)) {
        const auto found = as_making(folder);
        if (!found || found->file != file) continue;
        for (const fs::path& entry : folder_entries(folder, ignored)) {
            std::error_code error;
            const auto size = fs::file_size(entry, error);
            const auto time = fs::last_write_time(entry, error);
            if (error) continue;
            written.first += size;
            written.second = std::max(written.second, time);
        }
    }
    return written;
}

std::string holder_of(const fs::path& file) {
    const std::string holder(trim(read_file(lock_of(file)).value_or("")));
    return holder.empty() ? "another process" : holder;
}

// Takes the lock of a file that another process holds.
std::optional<Failure> wait_for_lock(const fs::path& file, int lock, const LockPatience& patience) {
    constexpr auto pause = std::chrono::milliseconds(200);
    const Timer waited;
    double next_line = patience.first_line;
    double grown_at = 0;
    Written written = written_for(file);
    for (;; std::this_thread::sleep_for(pause)) {
        if (take_lock(lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return std::nullopt;
        if (waited.seconds() < next_line) continue;
        next_line = waited.seconds() + patience.each_line;
        const std::string holder = holder_of(file);
        if (const Written now = written_for(file); now != written) {
            written = now;
            grown_at = waited.seconds();
        }
        if (waited.seconds() - grown_at > patience.longest)
            return Failure{
                ExitCode::peer_lost,
                format_text(
                    "{}: {} holds the lock, and what it prepares has not grown for {} s; end "
                    "it, or name another data_cache_dir",
                    lock_of(file).string(), holder, std::llround(patience.longest))};
        std::cerr << format_text(
                         "waiting for prepared data: {} holds the lock {}, after {} s; it has "
                         "written {}",
                         holder, lock_of(file).string(), std::llround(waited.seconds()),
                         human_bytes(static_cast<double>(written.first)))
                  << std::endl;
    }
}

// Names this process in the file of the lock that it holds. Another user's file stays as it is.
void sign(int lock) {
    const std::string name = format_text("{}, process {}\n", comm::host_name(), getpid());
    if (ftruncate(lock, 0) == 0) static_cast<void>(pwrite(lock, name.data(), name.size(), 0));
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

Expected<CacheEntry> CacheEntry::claim(const fs::path& file, const LockPatience& patience) {
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    const int lock = open_lock(file);
    if (lock < 0) return io_failure(lock_of(file), "cannot be made");
    CacheEntry entry(file, {}, lock);
    if (auto failure = wait_for_lock(file, lock, patience)) return *failure;
    sign(lock);
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

}  // namespace ringshard::data
