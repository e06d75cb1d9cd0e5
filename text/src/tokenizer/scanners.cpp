#include "scanners.hpp"

#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

namespace {

constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view one_digit_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view three_digits_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr uint8_t split_bits = is_letter | is_number | is_white;

class Text {
public:
    explicit Text(std::string_view text)
        : begin_(text.data()), end_(begin_ + text.size()), table_(character_table()) {
        for (unsigned byte = 0; byte < 0x80; ++byte) ascii_[byte] = table_[byte] & split_bits;
    }
    const char* begin() const { return begin_; }
    const char* end() const { return end_; }

    // Returns the bits of the character at `place` (0: a sign), and sets `next` to the next one.
    uint8_t bits(const char* place, const char*& next) const {
        if (is_ascii(*place)) {
            next = place + 1;
            return ascii_[static_cast<unsigned char>(*place)];
        }
        next = place;
        return table_[next_code_point(next)] & split_bits;
    }
    // Returns the end of the characters of this kind.
    const char* behind(const char* place, uint8_t kind) const {
        const char* next = place;
        while (place != end_ && bits(place, next) == kind) place = next;
        return place;
    }
    // Goes behind at most `most` such characters.
    const char* behind(const char* place, uint8_t kind, int most) const {
        const char* next = place;
        while (most-- > 0 && place != end_ && bits(place, next) == kind) place = next;
        return place;
    }
    const char* behind_line_ends(const char* place) const {
        while (place != end_ && (*place == '\n' || *place == '\r')) ++place;
        return place;
    }

private:
    const char* begin_;
    const char* end_;
    const PointTable<uint8_t>& table_;
    uint8_t ascii_[0x80];
};

// Returns the end of 's 't 'm 'd 're 've 'll at `place`, an apostrophe; nullptr for other text.
const char* behind_contraction(const char* place, const char* end, bool any_case) {
    const auto letter = [&](int i) -> char {
        if (end - place <= i) return 0;
        const char c = place[i];
        return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char first = letter(1), second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return place + 3;
    if (first == 'l' && second == 'l') return place + 3;
    // The long s is a case variant of s.
    if (any_case && end - place >= 3 && place[1] == '\xC5' && place[2] == '\xBF') return place + 3;
    return nullptr;
}

// Returns the end of white space, whose last character goes to the next word: \s+(?!\S)|\s+.
const char* behind_white(const Text& text, const char* place) {
    const char* next = place;
    const char* last = place;
    const char* here = place;
    while (here != text.end() && text.bits(here, next) == is_white) {
        last = here;
        here = next;
    }
    return here == text.end() || last == place ? here : last;
}

const char* next_gpt2(const Text& text, const char* place) {
    if (*place == '\'')
        if (const char* const behind = behind_contraction(place, text.end(), false)) return behind;
    const char* next = place;
    uint8_t kind = text.bits(place, next);
    if (kind != is_white) return text.behind(next, kind);
    if (*place == ' ' && next != text.end()) {
        const char* behind_next = next;
        kind = text.bits(next, behind_next);
        if (kind != is_white) return text.behind(behind_next, kind);
    }
    return behind_white(text, place);
}

// Returns the end of \s*[\r\n]+ and the rest of the pattern.
const char* behind_white_lines(const Text& text, const char* place) {
    const char* behind_last_line_end = nullptr;
    const char* next = place;
    for (const char* here = place; here != text.end() && text.bits(here, next) == is_white;
         here = next)
        if (*here == '\n' || *here == '\r') behind_last_line_end = next;
    return behind_last_line_end != nullptr ? behind_last_line_end : behind_white(text, place);
}

template <int most_digits>
const char* next_of_lines(const Text& text, const char* place) {
    if (*place == '\'')
        if (const char* const behind = behind_contraction(place, text.end(), true)) return behind;
    const char* next = place;
    const uint8_t kind = text.bits(place, next);
    if (kind == is_letter) return text.behind(next, is_letter);
    if (kind == is_number)
        return most_digits == 1 ? next : text.behind(next, is_number, most_digits - 1);
    const char* behind_next = next;
    const uint8_t following = next == text.end() ? uint8_t{is_white} : text.bits(next, behind_next);
    if (following == is_letter && *place != '\n' && *place != '\r')
        return text.behind(behind_next, is_letter);
    if (kind == 0) return text.behind_line_ends(text.behind(next, 0));
    if (*place == ' ' && following == 0) return text.behind_line_ends(text.behind(behind_next, 0));
    return behind_white_lines(text, place);
}

template <class Next>
void scan_with(std::string_view whole, uint32_t offset, std::vector<Cut>& pieces, Next next) {
    const Text text(whole);
    for (const char* place = text.begin(); place != text.end();) {
        const char* const behind = next(text, place);
        pieces.push_back({static_cast<uint32_t>(offset + (place - text.begin())),
                          static_cast<uint32_t>(offset + (behind - text.begin()))});
        place = behind;
    }
}

}  // namespace

std::string_view pattern_of(Scanner scanner) {
    return scanner == Scanner::gpt2        ? gpt2_pattern
           : scanner == Scanner::one_digit ? one_digit_pattern
                                           : three_digits_pattern;
}

std::optional<Scanner> scanner_for(std::string_view pattern) {
    for (const Scanner scanner : {Scanner::gpt2, Scanner::one_digit, Scanner::three_digits})
        if (pattern == pattern_of(scanner)) return scanner;
    return std::nullopt;
}

void scan(Scanner scanner, std::string_view text, uint32_t offset, std::vector<Cut>& pieces) {
    switch (scanner) {
        case Scanner::gpt2: return scan_with(text, offset, pieces, next_gpt2);
        case Scanner::one_digit: return scan_with(text, offset, pieces, next_of_lines<1>);
        case Scanner::three_digits: return scan_with(text, offset, pieces, next_of_lines<3>);
    }
}

}  // namespace ringshard::text
