#pragma once

#include <filesystem>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// How a process waits for another one that makes the same file, in seconds.
struct LockPatience {
    double first_line = 10;  // until it says for whom it waits
    double each_line = 60;
    double longest = 3600;  // without growth of what the other one has written: then it gives up
};

// A file that a process makes in the cache, under a lock; it appears under its name when it is
// complete. On file systems without locks two processes may do the same work, each in its own
// folder; the files stay intact.
class CacheEntry {
public:
    // Waits while another process makes the same file, and says so. Fails (77) if that process
    // writes nothing for too long.
    static Expected<CacheEntry> claim(const std::filesystem::path& file,
                                      const LockPatience& patience = {});
    CacheEntry(CacheEntry&& other) noexcept;
    CacheEntry& operator=(CacheEntry&&) = delete;
    ~CacheEntry();  // removes the work folder

    // Returns a folder next to the file, for temporary files.
    const std::filesystem::path& work() const { return work_; }
    // Renames work()/result to the file.
    std::optional<Failure> publish() const;

private:
    CacheEntry(std::filesystem::path file, std::filesystem::path work, int lock);
    std::filesystem::path file_;
    std::filesystem::path work_;
    int lock_;
};

// Removes the work folders of dead makers: no process holds the lock of the file, and a maker on
// another host has written nothing for an hour.
void remove_leftovers(const std::filesystem::path& cache);

}  // namespace ringshard::data
