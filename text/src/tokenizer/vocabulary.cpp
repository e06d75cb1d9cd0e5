#include "vocabulary.hpp"

#include <algorithm>
#include <bit>

namespace ringshard::text {

void Vocabulary::reserve(size_t tokens, size_t bytes) {
    entries_.reserve(tokens);
    bytes_.reserve(bytes);
    slots_.assign(std::bit_ceil(tokens * 3 / 2 + 2), none);
}

uint32_t* Vocabulary::slot_of(std::string_view token) {
    const size_t mask = slots_.size() - 1;
    for (size_t slot = hash_of(token) & mask;; slot = (slot + 1) & mask)
        if (slots_[slot] == none || text(entries_[slots_[slot]]) == token) return &slots_[slot];
}

void Vocabulary::add(std::string_view token, uint32_t id) {
    uint32_t* const slot = slot_of(token);
    if (*slot != none) {
        entries_[*slot].id = id;
        return;
    }
    *slot = static_cast<uint32_t>(entries_.size());
    entries_.push_back(
        {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), id});
    bytes_ += token;
}

void Vocabulary::finish() {
    size_ = entries_.size();
    for (const Entry& entry : entries_) greatest_id_ = std::max(greatest_id_, entry.id);
    by_id_.assign(entries_.empty() ? 0 : size_t{greatest_id_} + 1, none);
    for (size_t i = 0; i < entries_.size(); ++i) by_id_[entries_[i].id] = static_cast<uint32_t>(i);
}

std::optional<uint32_t> Vocabulary::id_of(std::string_view token) const {
    if (slots_.empty()) return std::nullopt;
    const size_t mask = slots_.size() - 1;
    for (size_t slot = hash_of(token) & mask; slots_[slot] != none; slot = (slot + 1) & mask)
        if (text(entries_[slots_[slot]]) == token) return entries_[slots_[slot]].id;
    return std::nullopt;
}

std::optional<std::string_view> Vocabulary::token_of(uint32_t id) const {
    if (id >= by_id_.size() || by_id_[id] == none) return std::nullopt;
    return text(entries_[by_id_[id]]);
}

void Merges::reserve(size_t merges) {
    const size_t size = std::bit_ceil(merges * 3 / 2 + 2);
    slots_.assign(size, {});
    mask_ = size - 1;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
}

void Merges::add(uint32_t left, uint32_t right, Merge merge) {
    size_t slot = hash(left, right);
    while (slots_[slot].merge.rank != never &&
           (slots_[slot].left != left || slots_[slot].right != right))
        slot = (slot + 1) & mask_;
    slots_[slot] = {left, right, merge};
}

}  // namespace ringshard::text
