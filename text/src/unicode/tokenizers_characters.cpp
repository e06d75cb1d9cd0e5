#include "tokenizers_characters.hpp"

#include <algorithm>
#include <map>

namespace ringshard::text {

namespace {

using unicode::canonical;
using unicode::compatible;

// Hangul syllables compose by arithmetic.
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
constexpr char32_t num_leads = 19, num_vowels = 21, num_trails = 28;
constexpr char32_t num_syllables = num_leads * num_vowels * num_trails;

bool is_syllable(char32_t point) { return point >= syllables && point < syllables + num_syllables; }

using Pair = std::pair<char32_t, char32_t>;

// Derives the pairs that compose from the full decompositions: if a character decomposes to three,
// the first two compose to a character, and this one composes with the third.
std::map<Pair, char32_t> derive_compositions() {
    std::vector<std::pair<std::span<const char32_t>, char32_t>> whole;
    char32_t single = 0;
    for (const char32_t point : canonical.points())
        if (const auto text = canonical.find(point, single); text.size() > 1)
            if (!std::ranges::binary_search(unicode::not_composed_points(), point))
                whole.emplace_back(text, point);
    std::ranges::stable_sort(whole, {}, [](const auto& entry) { return entry.first.size(); });
    std::map<Pair, char32_t> composed;
    for (const auto& [text, point] : whole) {
        char32_t first = text[0];
        for (const char32_t mark : text.subspan(1, text.size() - 2))
            first = composed.at({first, mark});
        composed[{first, text.back()}] = point;
    }
    return composed;
}

const std::map<Pair, char32_t>& compositions() {
    static const std::map<Pair, char32_t> composed = derive_compositions();
    return composed;
}

std::vector<uint16_t> read_forms() {
    std::vector<uint16_t> values(unicode::num_points);
    for (const unicode::ClassRange& range : unicode::combining_ranges())
        for (char32_t point = range.first; point <= range.last; ++point)
            values[point] = range.combining_class;
    for (const char32_t point : canonical.points())
        values[point] |= decomposes | decomposes_compatibly | not_in_nfc | not_in_nfkc;
    const std::vector<char32_t> only_compatible = compatible.points();
    for (const char32_t point : only_compatible)
        values[point] |= decomposes_compatibly | not_in_nfkc;
    for (char32_t i = 0; i < num_syllables; ++i)
        values[syllables + i] |= decomposes | decomposes_compatibly;
    // A composed character stays in NFC if its parts compose to it again.
    for (const auto& [pair, point] : compositions())
        values[point] &= uint16_t(~(not_in_nfc | not_in_nfkc));
    for (const char32_t point : only_compatible) values[point] |= not_in_nfkc;
    for (const auto& [pair, point] : compositions())
        values[pair.second] |= not_in_nfc | not_in_nfkc;
    for (char32_t point = vowels; point < vowels + num_vowels; ++point)
        values[point] |= not_in_nfc | not_in_nfkc;
    for (char32_t point = trails + 1; point < trails + num_trails; ++point)
        values[point] |= not_in_nfc | not_in_nfkc;
    return values;
}

// Returns the categories whose name is this one or begins with this letter, a bit for each.
uint32_t categories_named(std::string_view name) {
    uint32_t mask = 0;
    const bool is_group = name.size() == 1 && name != "C";
    for (size_t i = 0; i < unicode::category_names.size(); ++i) {
        const std::string_view category = unicode::category_names[i];
        if (!category.empty() && (category == name || (is_group && category.starts_with(name))))
            mask |= 1U << i;
    }
    return mask;
}

unicode::Property property_named(std::string_view name) {
    if (name == "space") return unicode::white;
    if (name == "word") return unicode::regex_word;
    return {categories_named(name), {}};
}

}  // namespace

const PointTable<uint8_t>& character_table() {
    static const PointTable<uint8_t> table(unicode::read_properties<uint8_t>(
        unicode::read_categories(), {{property_named("L"), is_letter},
                                     {property_named("N"), is_number},
                                     {unicode::white, is_white},
                                     {unicode::word, is_word},
                                     {unicode::numeric, is_numeric},
                                     {unicode::punctuation, is_punctuation}}));
    return table;
}

const PointTable<uint16_t>& form_table() {
    static const PointTable<uint16_t> table(read_forms());
    return table;
}

std::span<const char32_t> lower_case_of(char32_t point, Parts& parts) {
    return unicode::lower.find(point, parts[0]);
}

std::span<const char32_t> decomposition_of(char32_t point, bool compatibly, Parts& parts) {
    if (!is_syllable(point)) return (compatibly ? compatible : canonical).find(point, parts[0]);
    const char32_t index = point - syllables;
    parts = {leads + index / (num_vowels * num_trails), vowels + index / num_trails % num_vowels,
             trails + index % num_trails};
    return std::span(parts).first(index % num_trails == 0 ? 2 : 3);
}

char32_t compose(char32_t first, char32_t second) {
    if (first - leads < num_leads && second - vowels < num_vowels)
        return syllables + ((first - leads) * num_vowels + (second - vowels)) * num_trails;
    if (is_syllable(first) && (first - syllables) % num_trails == 0 && second > trails &&
        second < trails + num_trails)
        return first + (second - trails);
    const auto found = compositions().find({first, second});
    return found == compositions().end() ? 0 : found->second;
}

std::vector<PointRange> regex_class(std::string_view name) {
    const std::vector<uint8_t> holds =
        unicode::read_properties<uint8_t>(unicode::read_categories(), {{property_named(name), 1}});
    std::vector<PointRange> ranges;
    for (char32_t point = 0; point < unicode::num_points; ++point) {
        if (holds[point] == 0) continue;
        if (!ranges.empty() && ranges.back().last + 1 == point)
            ranges.back().last = point;
        else
            ranges.push_back({point, point});
    }
    return ranges;
}

}  // namespace ringshard::text
