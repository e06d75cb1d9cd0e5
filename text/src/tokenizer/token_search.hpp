#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringshard::text {

// Searches a text for many strings at once: finds the leftmost, and the longest among those that
// begin there.
class TokenSearch {
public:
    struct Pattern {
        std::string text;
        uint32_t id;
    };
    struct Found {
        size_t first;
        size_t last;
        uint32_t id;
    };

    TokenSearch() = default;
    explicit TokenSearch(std::vector<Pattern> patterns);  // distinct and not empty

    bool is_empty() const { return patterns_.empty(); }
    // Finds the next match at or after `from`; returns false if there is none.
    bool find(std::string_view text, size_t from, Found& found) const;

private:
    bool longest_at(std::string_view text, size_t place, Found& found) const;

    std::vector<Pattern> patterns_;  // sorted by text
    std::bitset<256> first_bytes_;
    std::bitset<65536> first_pairs_;  // any second byte for patterns of one byte
    int only_first_byte_ = -1;        // if all patterns share it
};

}  // namespace ringshard::text
