#include "unicode.hpp"

#include <algorithm>
#include <map>

namespace ringshard::text {

namespace {

using Range = PointRange;
struct Mapped {
    char32_t point;
    uint16_t first;
    uint8_t length;
};
struct ClassRange {
    char32_t first;
    char32_t last;
    uint8_t combining_class;
};
struct Pair {
    char32_t first;
    char32_t second;
    char32_t composed;
};

#include "unicode_data.inc"

constexpr size_t num_points = 0x110000;

// Hangul syllables compose by arithmetic.
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
constexpr char32_t num_leads = 19, num_vowels = 21, num_trails = 28;
constexpr char32_t num_syllables = num_leads * num_vowels * num_trails;

template <size_t n>
std::span<const char32_t> find(const Mapped (&table)[n], const char32_t* text, char32_t point) {
    const auto* const found =
        std::ranges::lower_bound(table, point, {}, [](const Mapped& m) { return m.point; });
    if (found == std::end(table) || found->point != point) return {};
    return {text + found->first, found->length};
}

using Ranges = std::span<const Range>;
const std::map<std::string_view, std::vector<Ranges>>& named_classes() {
    static const std::map<std::string_view, std::vector<Ranges>> named = [] {
        std::map<std::string_view, std::vector<Ranges>> classes = {
            {"Lu", {category_lu}}, {"Ll", {category_ll}}, {"Lt", {category_lt}},
            {"Lm", {category_lm}}, {"Lo", {category_lo}}, {"Mn", {category_mn}},
            {"Mc", {category_mc}}, {"Me", {category_me}}, {"Nd", {category_nd}},
            {"Nl", {category_nl}}, {"No", {category_no}}, {"Pc", {category_pc}},
            {"Pd", {category_pd}}, {"Ps", {category_ps}}, {"Pe", {category_pe}},
            {"Pi", {category_pi}}, {"Pf", {category_pf}}, {"Po", {category_po}},
            {"Sm", {category_sm}}, {"Sc", {category_sc}}, {"Sk", {category_sk}},
            {"So", {category_so}}, {"Zs", {category_zs}}, {"Zl", {category_zl}},
            {"Zp", {category_zp}}, {"Cc", {category_cc}}, {"Cf", {category_cf}},
            {"Co", {category_co}}, {"space", {white}},    {"word", {regex_word}},
        };
        for (const std::string_view whole : {"L", "M", "N", "P", "S", "Z"})
            for (const auto& [name, ranges] : std::map(classes))
                if (name.size() == 2 && name[0] == whole[0])
                    classes[whole].push_back(ranges.front());
        return classes;
    }();
    return named;
}

void set_bits(std::vector<uint8_t>& values, Ranges ranges, uint8_t bits) {
    for (const Range& range : ranges)
        for (char32_t point = range.first; point <= range.last; ++point) values[point] |= bits;
}

}  // namespace

template <class Value>
PointTable<Value>::PointTable(const std::vector<Value>& values) {
    std::map<std::vector<Value>, uint16_t> known;
    for (size_t block = 0; block < block_of_.size(); ++block) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(block << 8);
        const auto [place, is_new] =
            known.emplace(std::vector<Value>(begin, begin + 256), uint16_t(known.size()));
        if (is_new) blocks_.insert(blocks_.end(), begin, begin + 256);
        block_of_[block] = place->second;
    }
}
template class PointTable<uint8_t>;
template class PointTable<uint16_t>;

const PointTable<uint8_t>& character_table() {
    static const PointTable<uint8_t> table = [] {
        std::vector<uint8_t> values(num_points);
        for (const Ranges ranges : named_classes().at("L")) set_bits(values, ranges, is_letter);
        for (const Ranges ranges : named_classes().at("N")) set_bits(values, ranges, is_number);
        set_bits(values, white, is_white);
        set_bits(values, word, is_word);
        set_bits(values, numeric, is_numeric);
        set_bits(values, punctuation, is_punctuation);
        return PointTable<uint8_t>(values);
    }();
    return table;
}

std::span<const char32_t> lower_case_of(char32_t point) {
    return find(lower_case, lower_case_text, point);
}

const PointTable<uint16_t>& form_table() {
    static const PointTable<uint16_t> table = [] {
        std::vector<uint16_t> values(num_points);
        for (const ClassRange& range : combining)
            for (char32_t point = range.first; point <= range.last; ++point)
                values[point] = range.combining_class;
        for (const Mapped& m : canonical)
            values[m.point] |= decomposes | decomposes_compatibly | not_in_nfc | not_in_nfkc;
        for (const Mapped& m : compatible) values[m.point] |= decomposes_compatibly | not_in_nfkc;
        for (char32_t i = 0; i < num_syllables; ++i)
            values[syllables + i] |= decomposes | decomposes_compatibly;
        // A composed character stays in NFC if its parts compose to it again.
        for (const Pair& pair : compositions) values[pair.composed] &= uint16_t(~not_in_nfc);
        for (const Pair& pair : compositions)
            if ((values[pair.composed] & decomposes) != 0 &&
                find(compatible, compatible_text, pair.composed).empty())
                values[pair.composed] &= uint16_t(~not_in_nfkc);
        for (const Pair& pair : compositions) values[pair.second] |= not_in_nfc | not_in_nfkc;
        for (char32_t point = vowels; point < vowels + num_vowels; ++point)
            values[point] |= not_in_nfc | not_in_nfkc;
        for (char32_t point = trails + 1; point < trails + num_trails; ++point)
            values[point] |= not_in_nfc | not_in_nfkc;
        return PointTable<uint16_t>(values);
    }();
    return table;
}

namespace {

std::span<const char32_t> syllable_parts(char32_t point) {
    static thread_local std::array<char32_t, 3> parts;
    const char32_t index = point - syllables;
    parts = {leads + index / (num_vowels * num_trails), vowels + index / num_trails % num_vowels,
             trails + index % num_trails};
    return std::span(parts).first(index % num_trails == 0 ? 2 : 3);
}
bool is_syllable(char32_t point) { return point >= syllables && point < syllables + num_syllables; }

}  // namespace

std::span<const char32_t> canonical_decomposition(char32_t point) {
    if (is_syllable(point)) return syllable_parts(point);
    return find(canonical, canonical_text, point);
}

std::span<const char32_t> compatible_decomposition(char32_t point) {
    if (is_syllable(point)) return syllable_parts(point);
    const auto found = find(compatible, compatible_text, point);
    return found.empty() ? find(canonical, canonical_text, point) : found;
}

char32_t compose(char32_t first, char32_t second) {
    if (first - leads < num_leads && second - vowels < num_vowels)
        return syllables + ((first - leads) * num_vowels + (second - vowels)) * num_trails;
    if (is_syllable(first) && (first - syllables) % num_trails == 0 && second > trails &&
        second < trails + num_trails)
        return first + (second - trails);
    const auto key = [](char32_t a, char32_t b) { return uint64_t{a} << 32 | b; };
    const auto* const found =
        std::ranges::lower_bound(compositions, key(first, second), {},
                                 [&](const Pair& p) { return key(p.first, p.second); });
    if (found == std::end(compositions) || found->first != first || found->second != second)
        return 0;
    return found->composed;
}

std::vector<PointRange> regex_class(std::string_view name) {
    std::vector<PointRange> ranges;
    const auto found = named_classes().find(name);
    if (found == named_classes().end()) return ranges;
    for (const Ranges part : found->second) ranges.insert(ranges.end(), part.begin(), part.end());
    std::ranges::sort(ranges, {}, &PointRange::first);
    return ranges;
}

}  // namespace ringshard::text
