#pragma once

#include <filesystem>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// A file of the cache that is being made: nobody else makes it meanwhile, and it appears under its
// name when it is whole. On file systems without locks two makers may do the same work, each in a
// folder of its own; the files stay whole.
class CacheEntry {
public:
    // Waits while another process makes the same.
    static Expected<CacheEntry> claim(const std::filesystem::path& file);
    CacheEntry(CacheEntry&& other) noexcept;
    CacheEntry& operator=(CacheEntry&&) = delete;
    ~CacheEntry();  // removes the work folder

    // A folder beside the file, for everything on the way to it.
    const std::filesystem::path& work() const { return work_; }
    // work()/result becomes the file.
    std::optional<Failure> publish() const;

private:
    CacheEntry(std::filesystem::path file, std::filesystem::path work, int lock);
    std::filesystem::path file_;
    std::filesystem::path work_;
    int lock_;
};

// Removes the work folders whose makers died: nobody holds the lock of the file, and a maker on
// another host has written nothing for an hour.
void remove_leftovers(const std::filesystem::path& cache);

// XXH3 with 128 bits, as 32 hexadecimal digits.
std::string hash_of(std::string_view text);

}  // namespace ringshard::data
