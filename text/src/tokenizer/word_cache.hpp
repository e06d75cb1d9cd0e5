#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "vocabulary.hpp"

namespace ringshard::text {

// A cache of words' tokens. One slot per hash: a new word evicts an old one. Words that are long or
// have many tokens are rare and not cached.
class WordCache {
public:
    static constexpr size_t longest = 23;
    static constexpr size_t most_tokens = 9;

    explicit WordCache(size_t slots) : slots_(std::bit_ceil(slots)), mask_(slots_.size() - 1) {}

    // A word of at most `longest` bytes and its length, in three machine words.
    struct Key {
        uint64_t part[3];
        bool operator==(const Key& other) const {
            return ((part[0] ^ other.part[0]) | (part[1] ^ other.part[1]) |
                    (part[2] ^ other.part[2])) == 0;
        }
    };
    // `end`: end of the readable memory after the word.
    static Key key_of(std::string_view word, const char* end) {
        Key key{};
        const char* const place = word.data();
        const size_t size = word.size();
        if (static_cast<size_t>(end - place) >= sizeof key) {
            std::memcpy(&key, place, sizeof key);
            const auto keep = [&](size_t i) {
                const size_t begin = 8 * i;
                if (size <= begin)
                    key.part[i] = 0;
                else if (size < begin + 8)
                    key.part[i] &= ~uint64_t{0} >> (64 - 8 * (size - begin));
            };
            keep(0), keep(1), keep(2);
        } else {
            std::memcpy(&key, place, size);
        }
        key.part[2] |= uint64_t{size} << 56;
        return key;
    }

    // Returns the tokens of a word; empty if it is not cached.
    std::span<const int32_t> find(const Key& key) const {
        const Slot& slot = slots_[place(key)];
        if (!(slot.key == key)) return {};
        return {slot.ids, slot.size};
    }
    void put(const Key& key, std::span<const int32_t> ids) {
        if (ids.empty() || ids.size() > most_tokens) return;
        Slot& slot = slots_[place(key)];
        slot.key = key;
        slot.size = static_cast<uint32_t>(ids.size());
        std::memcpy(slot.ids, ids.data(), ids.size_bytes());
    }

private:
    struct alignas(64) Slot {
        Key key{};
        uint32_t size = 0;
        int32_t ids[most_tokens] = {};
    };
    static_assert(sizeof(Slot) == 64);
    static_assert(std::endian::native == std::endian::little);
    size_t place(const Key& key) const {
        return mixed(key.part[0] ^ std::rotl(key.part[1], 23) * 31 ^ key.part[2] * 0x9E3779B9u) &
               mask_;
    }
    std::vector<Slot> slots_;
    size_t mask_;
};

}  // namespace ringshard::text
