#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

// Properties and mappings of every code point, and their reader. scripts/make_unicode_tables.py
// writes them into data.inc; other code uses one of the interfaces beside this file.
namespace ringshard::text::unicode {

constexpr char32_t num_points = 0x110000;

// In the order in which data.inc counts them; the last one stands for points without a category.
constexpr std::array<std::string_view, 29> category_names{
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", ""};

// A set of points: those of `categories` (a bit for each), except that `flips` inverts the
// membership of its ranges. It alternates the gap before a range and the length of the range.
struct Property {
    uint32_t categories;
    std::span<const uint32_t> flips;
};

// The points from `first` to `last` in steps; each maps to itself plus the difference.
struct Stretch {
    char32_t first;
    char32_t last;
    uint8_t step;
    int32_t difference;
};
// Consecutive points that map to texts of one length, which are consecutive from `text` on.
struct Block {
    char32_t first;
    uint16_t count;
    uint8_t length;
    uint16_t text;
};
struct Mapping {
    std::span<const Stretch> stretches;
    std::span<const Block> blocks;
    const char32_t* text;
    const Mapping* base;  // maps the other points; nullptr: none

    // Returns the text of a point, empty if the point is not mapped. `single` holds the text if it
    // is computed.
    std::span<const char32_t> find(char32_t point, char32_t& single) const;
    // Returns the mapped points, without those of `base`.
    std::vector<char32_t> points() const;
};

struct ClassRange {
    char32_t first;
    char32_t last;
    uint8_t combining_class;
};

// As the package `tokenizers` has them.
extern const Property white, word, numeric, punctuation, regex_word;
extern const Mapping lower, canonical, compatible;
std::span<const ClassRange> combining_ranges();
// Points with a canonical decomposition that does not compose to them again.
std::span<const char32_t> not_composed_points();

// As Python has them.
extern const Property python_alpha, python_decimal, python_digit, python_number, python_printable,
    python_space, python_upper, python_lower, python_title, python_case_ignorable,
    python_name_start, python_name_part;
extern const Mapping python_lower_case, python_upper_case, python_title_case, python_folded_case;

// Returns the category of every point, as the package or as Python has it.
std::vector<uint8_t> read_categories();
std::vector<uint8_t> read_python_categories();

// Calls visit(first, end) for every range of numbers such as Property::flips.
template <class Visit>
void for_each_range(std::span<const uint32_t> gaps_and_lengths, Visit&& visit) {
    char32_t end = 0;
    for (size_t i = 0; i < gaps_and_lengths.size(); i += 2) {
        const char32_t first = end + gaps_and_lengths[i];
        end = first + gaps_and_lengths[i + 1];
        visit(first, end);
    }
}

// Returns for every point the bits of its properties.
template <class Value>
std::vector<Value> read_properties(const std::vector<uint8_t>& categories,
                                   std::initializer_list<std::pair<Property, Value>> properties) {
    std::array<Value, category_names.size()> of_category{};
    for (const auto& [property, bit] : properties)
        for (size_t i = 0; i < of_category.size(); ++i)
            if ((property.categories >> i & 1) != 0) of_category[i] |= bit;
    std::vector<Value> values(num_points);
    for (char32_t point = 0; point < num_points; ++point)
        values[point] = of_category[categories[point]];
    for (const auto& [property, bit] : properties)
        for_each_range(property.flips, [&, flipped = bit](char32_t first, char32_t end) {
            for (char32_t point = first; point < end; ++point) values[point] ^= flipped;
        });
    return values;
}

// A value per point, in two levels: most blocks of 256 are equal.
template <class Value>
class PointTable {
public:
    explicit PointTable(const std::vector<Value>& values);  // one per point
    Value operator[](char32_t point) const {
        return blocks_[static_cast<size_t>(block_of_[point >> 8]) << 8 | (point & 0xFF)];
    }

private:
    std::array<uint16_t, num_points / 256> block_of_{};
    std::vector<Value> blocks_;
};

}  // namespace ringshard::text::unicode
