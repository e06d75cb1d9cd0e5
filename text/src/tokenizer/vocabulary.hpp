#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringshard::text {

// Hashes eight bytes at a time. The tables hold no hostile input, so collisions are no concern.
inline uint64_t mixed(uint64_t value) {
    value *= 0x9E3779B97F4A7C15u;
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93u;
    return value ^ value >> 29;
}
inline uint64_t hash_of(std::string_view bytes) {
    uint64_t hash = bytes.size();
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
        uint64_t word;
        std::memcpy(&word, bytes.data(), 8);
        hash = mixed(hash ^ word);
    }
    uint64_t rest = 0;
    if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
    return mixed(hash ^ rest);
}

// Tokens and their ids, in one block of bytes.
class Vocabulary {
public:
    void reserve(size_t tokens, size_t bytes);
    void add(std::string_view token, uint32_t id);  // the last one wins
    void finish();                                  // after the last add()

    std::optional<uint32_t> id_of(std::string_view token) const;
    std::optional<std::string_view> token_of(uint32_t id) const;
    size_t size() const { return size_; }
    uint32_t greatest_id() const { return greatest_id_; }

private:
    struct Entry {
        uint32_t first;
        uint32_t length;
        uint32_t id;
    };
    static constexpr uint32_t none = ~uint32_t{0};
    std::string_view text(const Entry& entry) const {
        return std::string_view(bytes_).substr(entry.first, entry.length);
    }
    uint32_t* slot_of(std::string_view token);

    std::string bytes_;
    std::vector<Entry> entries_;
    std::vector<uint32_t> slots_;  // by hash: index into entries_
    std::vector<uint32_t> by_id_;
    size_t size_ = 0;
    uint32_t greatest_id_ = 0;
};

// The merges: two tokens, their rank and the merged token.
class Merges {
public:
    struct Merge {
        uint32_t rank;
        uint32_t id;
    };
    static constexpr uint32_t never = ~uint32_t{0};

    void reserve(size_t merges);
    void add(uint32_t left, uint32_t right, Merge merge);  // the last one wins
    Merge find(uint32_t left, uint32_t right) const {      // rank `never`: no merge
        for (size_t slot = hash(left, right);; slot = (slot + 1) & mask_) {
            const Slot& found = slots_[slot];
            if (found.left == left && found.right == right) return found.merge;
            if (found.merge.rank == never) return {never, 0};
        }
    }

private:
    struct Slot {
        uint32_t left = 0;
        uint32_t right = 0;
        Merge merge = {never, 0};
    };
    size_t hash(uint32_t left, uint32_t right) const {
        return (((uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u) >> shift_) & mask_;
    }
    std::vector<Slot> slots_ = std::vector<Slot>(2);
    size_t mask_ = 1;
    unsigned shift_ = 63;
};

}  // namespace ringshard::text
