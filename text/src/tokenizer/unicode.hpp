#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

// Character properties of the `tokenizers` package (unicode_data.inc): it combines several
// libraries of different Unicode versions, so this is a table of its results, not of one version.
namespace ringshard::text {

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

// A value per code point, in two levels: most blocks of 256 are equal.
template <class Value>
class PointTable {
public:
    explicit PointTable(const std::vector<Value>& values);  // 0x110000 values
    Value operator[](char32_t point) const {
        return blocks_[static_cast<size_t>(block_of_[point >> 8]) << 8 | (point & 0xFF)];
    }

private:
    std::array<uint16_t, 0x1100> block_of_{};
    std::vector<Value> blocks_;
};

// Returns bits of Character.
const PointTable<uint8_t>& character_table();

// Returns the lower case of a character; empty if it has none.
std::span<const char32_t> lower_case_of(char32_t point);

// Properties of a character for normalization.
enum Form : uint16_t {
    combining_class = 0xFF,  // mask
    decomposes = 0x100,
    decomposes_compatibly = 0x200,
    not_in_nfc = 0x400,  // or only after some characters
    not_in_nfkc = 0x800,
};
const PointTable<uint16_t>& form_table();
std::span<const char32_t> canonical_decomposition(char32_t point);
std::span<const char32_t> compatible_decomposition(char32_t point);
char32_t compose(char32_t first, char32_t second);  // 0: they do not compose

// Returns the characters of a regex class: "L", "Lu", "space", "word"; empty if unknown.
std::vector<PointRange> regex_class(std::string_view name);

}  // namespace ringshard::text
