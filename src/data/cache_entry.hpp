#pragma once

#include <filesystem>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// A file that a process makes in the cache, under a lock; it appears under its name when it is
// complete. On file systems without locks two processes may do the same work, each in its own
// folder; the files stay intact.
class CacheEntry {
public:
    // Waits while another process makes the same file.
    static Expected<CacheEntry> claim(const std::filesystem::path& file);
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

// Returns the XXH3-128 hash as 32 hexadecimal digits.
std::string hash_of(std::string_view text);

}  // namespace ringshard::data
