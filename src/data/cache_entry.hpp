#pragma once

#include <filesystem>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// A file of the cache that is being made: nobody else makes it meanwhile, and it appears under its
// name when it is whole. What makers that died have left behind is removed.
class CacheEntry {
public:
    // Waits while another process makes the same; `waits` tells whether it had to.
    static Expected<CacheEntry> claim(const std::filesystem::path& file, bool& waits);
    CacheEntry(CacheEntry&& other) noexcept;
    CacheEntry& operator=(CacheEntry&&) = delete;
    ~CacheEntry();  // removes the work folder

    // A folder beside the file, for everything on the way to it.
    const std::filesystem::path& work() const { return work_; }
    // work()/result becomes the file.
    std::optional<Failure> publish() const;

private:
    CacheEntry(std::filesystem::path file, int lock);
    std::filesystem::path file_;
    std::filesystem::path work_;
    int lock_;
};

// XXH3 with 128 bits, as 32 hexadecimal digits.
std::string hash_of(std::string_view text);

}  // namespace ringshard::data
