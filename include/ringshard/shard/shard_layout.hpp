#pragma once

#include <algorithm>
#include <cstdint>

namespace ringshard::shard {

// Elements [begin, end) of something flat.
struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const { return end - begin; }
    bool operator==(const Range&) const = default;
};

inline Range intersect(const Range& a, const Range& b) {
    const int64_t begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Returns part `part` of `size` elements that are divided into `num_parts`: the one arithmetic of
// sharding, checkpoints and resuming at another number of ranks.
inline Range part_of(int64_t size, int64_t part, int64_t num_parts) {
    return {size * part / num_parts, size * (part + 1) / num_parts};
}

}  // namespace ringshard::shard
