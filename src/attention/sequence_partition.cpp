#include "ringshard/attention/sequence_partition.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"

namespace ringshard::attention {

int64_t num_tokens(const Layout& layout) {
    int64_t total = 0;
    for (const Run& run : layout) total += run.length;
    return total;
}

SequencePartition::SequencePartition(int64_t num_tokens, int64_t ring, int64_t ulysses)
    : ring_(ring), ulysses_(ulysses) {
    const int64_t multiple = 2 * ring * ulysses;
    filled_length_ = (num_tokens + multiple - 1) / multiple * multiple;
}

Layout SequencePartition::of_ring_rank(int64_t ring_rank) const {
    RINGSHARD_CHECK(ring_rank >= 0 && ring_rank < ring_);
    const int64_t chunk = filled_length_ / (2 * ring_);
    const int64_t mirrored = 2 * ring_ - 1 - ring_rank;
    if (mirrored == ring_rank + 1) return {{ring_rank * chunk, 2 * chunk}};  // they are neighbours
    return {{ring_rank * chunk, chunk}, {mirrored * chunk, chunk}};
}

Layout SequencePartition::of_rank(int64_t ring_rank, int64_t ulysses_rank) const {
    const int64_t length = tokens_per_rank();
    const int64_t begin = ulysses_rank * length;
    Layout part;
    int64_t passed = 0;
    for (const Run& run : of_ring_rank(ring_rank)) {
        const int64_t from = std::max(begin, passed);
        const int64_t to = std::min(begin + length, passed + run.length);
        if (from < to) part.push_back({run.start + from - passed, to - from});
        passed += run.length;
    }
    return part;
}

}  // namespace ringshard::attention
