#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace ringshard::data {

// A set of numbers below a bound that finds its next member in a few steps: bits in words, and
// above every 64 words a word that marks the non-empty ones.
class BitSet {
public:
    explicit BitSet(uint32_t bound) {
        size_t words = bound / 64 + 1;
        for (auto& level : levels_) {
            level.assign(words, 0);
            words = words / 64 + 1;
        }
    }
    void insert(uint32_t number) {
        for (auto& level : levels_) {
            level[number / 64] |= uint64_t{1} << number % 64;
            number /= 64;
        }
    }
    void erase(uint32_t number) {
        for (auto& level : levels_) {
            level[number / 64] &= ~(uint64_t{1} << number % 64);
            if (level[number / 64] != 0) return;
            number /= 64;
        }
    }
    // Returns the least member that is at least `number`; `none` if there is none.
    static constexpr uint32_t none = UINT32_MAX;
    uint32_t next(uint32_t number) const {
        for (size_t height = 0; height < levels_.size(); ++height) {
            const auto& level = levels_[height];
            if (number / 64 >= level.size()) return none;
            const uint64_t rest = level[number / 64] >> number % 64;
            if (rest != 0) {
                number += static_cast<uint32_t>(std::countr_zero(rest));
                return first_below(height, number);
            }
            number = number / 64 + 1;
        }
        return none;
    }

private:
    uint32_t first_below(size_t height, uint32_t number) const {
        while (height-- > 0)
            number = number * 64 + static_cast<uint32_t>(std::countr_zero(levels_[height][number]));
        return number;
    }
    std::array<std::vector<uint64_t>, 6> levels_;  // 64^6 exceeds every uint32_t
};

}  // namespace ringshard::data
