#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ringshard::attention {

// Neighbouring tokens of the uncut list.
struct Run {
    int64_t start;
    int64_t length;
    bool operator==(const Run&) const = default;
};
using Layout = std::vector<Run>;  // what a rank holds, in the order in which it holds it

int64_t num_tokens(const Layout& layout);

// Which tokens of one list each rank of a sequence group holds. A ring rank holds two of 2 x ring
// equal chunks, rank r the chunks r and 2 x ring - 1 - r: then causal attention is the same work
// for all. Ulysses ranks hold equal parts of what their ring rank holds.
class SequencePartition {
public:
    // The list is filled up to a multiple of 2 x ring x ulysses.
    SequencePartition(int64_t num_tokens, int64_t ring, int64_t ulysses);

    int64_t filled_length() const { return filled_length_; }
    int64_t tokens_per_rank() const { return filled_length_ / (ring_ * ulysses_); }
    Layout of_ring_rank(int64_t ring_rank) const;
    Layout of_rank(int64_t ring_rank, int64_t ulysses_rank) const;
    int64_t ring() const { return ring_; }

private:
    int64_t filled_length_;
    int64_t ring_;
    int64_t ulysses_;
};

// What a rank takes from a list, in its order.
template <class Value>
std::vector<Value> pick(std::span<const Value> whole, const Layout& layout) {
    std::vector<Value> picked;
    picked.reserve(static_cast<size_t>(num_tokens(layout)));
    for (const Run& run : layout) {
        const auto part =
            whole.subspan(static_cast<size_t>(run.start), static_cast<size_t>(run.length));
        picked.insert(picked.end(), part.begin(), part.end());
    }
    return picked;
}

}  // namespace ringshard::attention
