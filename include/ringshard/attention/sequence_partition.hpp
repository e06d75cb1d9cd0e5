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
using Layout = std::vector<Run>;  // the tokens of a rank, ascending

int64_t num_tokens(const Layout& layout);

// A document that goes on behind the first tokens of another one, its stem. Both have these tokens
// in common, and the list has them once.
struct Branch {
    size_t document;
    size_t stem;     // not a branch itself
    int64_t length;  // of the tokens in common
};

// The work of causal attention within documents on each ring rank: pairs of one of its queries and
// a key that it sees.
struct RingWork {
    double worst;
    double mean;
};

// Splits the tokens of one list over the ranks of a sequence group. All ring ranks hold equally
// many, with about the same work of causal attention. The zigzag of the list has 2 x ring equal
// chunks, of which rank r holds the chunks r and 2 x ring - 1 - r. If the documents make that
// uneven, every document has a zigzag of its own. Ulysses ranks hold equal parts of the tokens of
// their ring rank. The partition depends on the arguments alone, so all ranks compute the same.
class SequencePartition {
public:
    // document_starts: where documents begin, ascending from 0. The list is filled up to a multiple
    // of 2 x ring x ulysses with a document of its own.
    SequencePartition(int64_t num_tokens, std::vector<int64_t> document_starts, int64_t ring,
                      int64_t ulysses, std::vector<Branch> branches = {});

    int64_t filled_length() const { return filled_length_; }
    int64_t tokens_per_rank() const { return filled_length_ / (ring_ * ulysses_); }
    int64_t ring() const { return ring_; }
    // Includes the start of the filler document, if there is one.
    const std::vector<int64_t>& document_starts() const { return document_starts_; }
    const std::vector<Branch>& branches() const { return branches_; }
    const Layout& of_ring_rank(int64_t ring_rank) const;
    Layout of_rank(int64_t ring_rank, int64_t ulysses_rank) const;
    RingWork work() const;

private:
    int64_t filled_length_;
    std::vector<int64_t> document_starts_;
    std::vector<Branch> branches_;
    int64_t ring_;
    int64_t ulysses_;
    std::vector<Layout> ring_layouts_;
};

// Returns the entries of a list at the places of a layout.
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
