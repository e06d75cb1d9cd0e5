#include <algorithm>

#include "bpe.hpp"

// A short word is searched for its best pair after each merge. A long word uses a queue of pairs,
// so that a text without spaces takes n log n.
namespace ringshard::text {

namespace {

constexpr size_t longest_short_word = 48;

void merge_short(const Merges& merges, Bpe::Buffers& buffers) {
    std::vector<Symbol>& symbols = buffers.symbols;
    uint32_t ranks[longest_short_word];
    uint32_t merged[longest_short_word];
    const auto look = [&](size_t i) {
        const Merges::Merge merge = merges.find(symbols[i].id, symbols[i + 1].id);
        ranks[i] = merge.rank;
        merged[i] = merge.id;
    };
    size_t size = symbols.size();
    for (size_t i = 0; i + 1 < size; ++i) look(i);
    while (size > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < size; ++i)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == Merges::never) break;
        symbols[best] = {merged[best], symbols[best].length + symbols[best + 1].length};
        --size;
        for (size_t i = best + 1; i < size; ++i) symbols[i] = symbols[i + 1];
        for (size_t i = best + 1; i + 1 < size; ++i) {
            ranks[i] = ranks[i + 1];
            merged[i] = merged[i + 1];
        }
        if (best + 1 < size) look(best);
        if (best > 0) look(best - 1);
    }
    symbols.resize(size);
}

// A linked list of symbols and a queue of pairs, best first: rank in the upper half of an entry,
// position in the lower.
class LongWord {
public:
    LongWord(const Merges& merges, Bpe::Buffers& buffers)
        : merges_(merges), buffers_(buffers), symbols_(buffers.symbols), queue_(buffers.queue) {}

    void merge() {
        const auto size = static_cast<uint32_t>(symbols_.size());
        buffers_.previous.resize(size);
        buffers_.next.resize(size);
        for (uint32_t i = 0; i < size; ++i) {
            buffers_.previous[i] = i == 0 ? none : i - 1;
            buffers_.next[i] = i + 1 == size ? none : i + 1;
        }
        queue_.clear();
        for (uint32_t i = 0; i + 1 < size; ++i) enqueue(i);
        while (!queue_.empty()) {
            std::ranges::pop_heap(queue_, std::greater{});
            const uint64_t entry = queue_.back();
            queue_.pop_back();
            take(static_cast<uint32_t>(entry), static_cast<uint32_t>(entry >> 32));
        }
        std::erase_if(symbols_, [](const Symbol& symbol) { return symbol.length == gone; });
    }

private:
    static constexpr uint32_t none = ~uint32_t{0};
    static constexpr uint32_t gone = ~uint32_t{0};

    void enqueue(uint32_t left) {
        const uint32_t right = buffers_.next[left];
        if (right == none) return;
        const Merges::Merge merge = merges_.find(symbols_[left].id, symbols_[right].id);
        if (merge.rank == Merges::never) return;
        queue_.push_back(uint64_t{merge.rank} << 32 | left);
        std::ranges::push_heap(queue_, std::greater{});
    }

    // Merges the pair at `left` if it still has that rank.
    void take(uint32_t left, uint32_t rank) {
        if (symbols_[left].length == gone) return;
        const uint32_t right = buffers_.next[left];
        if (right == none) return;
        const Merges::Merge merge = merges_.find(symbols_[left].id, symbols_[right].id);
        if (merge.rank != rank) return;
        symbols_[left] = {merge.id, symbols_[left].length + symbols_[right].length};
        symbols_[right].length = gone;
        const uint32_t after = buffers_.next[right];
        buffers_.next[left] = after;
        if (after != none) buffers_.previous[after] = left;
        if (buffers_.previous[left] != none) enqueue(buffers_.previous[left]);
        enqueue(left);
    }

    const Merges& merges_;
    Bpe::Buffers& buffers_;
    std::vector<Symbol>& symbols_;
    std::vector<uint64_t>& queue_;
};

}  // namespace

void merge_symbols(const Merges& merges, Bpe::Buffers& buffers) {
    if (buffers.symbols.size() < 2) return;
    if (buffers.symbols.size() <= longest_short_word)
        merge_short(merges, buffers);
    else
        LongWord(merges, buffers).merge();
}

}  // namespace ringshard::text
