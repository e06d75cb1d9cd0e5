#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "table.hpp"

// Characters as the package `tokenizers` has them: it combines several libraries of different
// Unicode versions, so this is a table of its results, not of one version.
namespace ringshard::text {

using unicode::PointTable;

struct PointRange {
    char32_t first;
    char32_t last;  // inclusive
};

// Bits of a character's properties.
enum Character : uint8_t {
    is_letter = 1,       // \p{L}
    is_number = 2,       // \p{N}
    is_white = 4,        // \s
    is_word = 8,         // \w of the Whitespace pre-tokenizer and of single_word
    is_numeric = 16,     // of the Digits pre-tokenizer
    is_punctuation = 32  // of the Punctuation pre-tokenizer
};
// Returns bits of Character.
const PointTable<uint8_t>& character_table();

// Properties of a character for normalization.
enum Form : uint16_t {
    combining_class = 0xFF,  // mask
    decomposes = 0x100,
    decomposes_compatibly = 0x200,
    not_in_nfc = 0x400,  // or only after some characters
    not_in_nfkc = 0x800,
};
const PointTable<uint16_t>& form_table();

// Holds the text that one of the functions below computes: up to the three of a Hangul syllable.
using Parts = std::array<char32_t, 3>;
// Returns the lower case of a character; empty if it has none.
std::span<const char32_t> lower_case_of(char32_t point, Parts& parts);
// Returns the full decomposition of a character; empty if it has none.
std::span<const char32_t> decomposition_of(char32_t point, bool compatibly, Parts& parts);

char32_t compose(char32_t first, char32_t second);  // 0: they do not compose

// Returns the characters of a regex class: "L", "Lu", "space", "word"; empty if unknown.
std::vector<PointRange> regex_class(std::string_view name);

}  // namespace ringshard::text
