#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringshard::text {

// Looks for many strings in a text at once: the leftmost, and of those that begin there the
// longest.
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
    explicit TokenSearch(std::vector<Pattern> patterns);  // none of them empty, no two the same

    bool is_empty() const { return patterns_.empty(); }
    // The next one at `from` or behind it; false if there is none.
    bool find(std::string_view text, size_t from, Found& found) const;

private:
    bool longest_at(std::string_view text, size_t place, Found& found) const;

    std::vector<Pattern> patterns_;  // sorted by text
    std::bitset<256> first_bytes_;
    std::bitset<65536> first_pairs_;  // with any second byte where a pattern is one byte long
    int only_first_byte_ = -1;        // if all patterns begin alike
};

}  // namespace ringshard::text
