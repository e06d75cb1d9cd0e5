#include <algorithm>
#include <array>

#include "regex.hpp"
#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

namespace {

Failure refused(std::string_view pattern, const std::string& what) {
    return {ExitCode::bad_data,
            format_text("the regular expression {} holds {}, which this program does not support",
                        pattern, what)};
}

std::string hex(char32_t point) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "\\x{%x}", static_cast<unsigned>(point));
    return text.data();
}

std::vector<PointRange> complement(const std::vector<PointRange>& ranges) {
    std::vector<PointRange> others;
    char32_t next = 0;
    for (const PointRange& range : ranges) {
        if (range.first > next) others.push_back({next, range.first - 1});
        next = std::max<char32_t>(next, range.last + 1);
    }
    if (next < 0x110000) others.push_back({next, 0x10FFFF});
    return others;
}

std::string spelt_out(const std::vector<PointRange>& ranges) {
    std::string text;
    for (const PointRange& range : ranges) {
        // Skip surrogates, which are not characters and which PCRE2 refuses.
        const auto put = [&](char32_t first, char32_t last) {
            if (first > last) return;
            text += hex(first);
            if (first != last) text += "-" + hex(last);
        };
        put(range.first, std::min<char32_t>(range.last, 0xD7FF));
        put(std::max<char32_t>(range.first, 0xE000), range.last);
    }
    return text;
}

// Translates an Oniguruma pattern to PCRE2. The two agree on nearly everything that tokenizers use;
// other constructs are rewritten or refused.
class Translation {
public:
    explicit Translation(std::string_view pattern) : pattern_(pattern) {}

    Expected<std::string> run() {
        while (place_ < pattern_.size()) {
            const char c = pattern_[place_];
            if (c == '[') {
                if (auto failure = char_class()) return *failure;
            } else if (c == '\\') {
                if (auto failure = escape(false)) return *failure;
            } else if (c == '{') {
                if (auto failure = interval()) return *failure;
            } else if (c == '(') {
                if (auto failure = group()) return *failure;
            } else if (c == '^' || c == '$') {
                // In Oniguruma these match at line boundaries, not only at the ends of the text.
                out_ += c == '^' ? "(?m:^)" : "(?m:$)";
                ++place_;
            } else {
                out_ += c;
                ++place_;
            }
        }
        return out_;
    }

private:
    bool next_is(std::string_view text) const { return pattern_.substr(place_).starts_with(text); }

    // Parses \p{L}, \P{L} or \p{^L}: the name between the braces, and whether it is negated.
    std::optional<Failure> property(bool in_class) {
        bool inverted = pattern_[place_ + 1] == 'P';
        size_t name = place_ + 2;
        if (name >= pattern_.size() || pattern_[name] != '{')
            return refused(pattern_, "\\p without {");
        ++name;
        if (name < pattern_.size() && pattern_[name] == '^') {
            inverted = !inverted;
            ++name;
        }
        const size_t end = pattern_.find('}', name);
        if (end == std::string_view::npos) return refused(pattern_, "\\p{ without }");
        const std::string_view text = pattern_.substr(name, end - name);
        place_ = end + 1;
        if (auto failure = put_class(text, inverted, in_class)) return failure;
        return std::nullopt;
    }

    std::optional<Failure> put_class(std::string_view name, bool inverted, bool in_class) {
        auto ranges = regex_class(name);
        if (ranges.empty()) return refused(pattern_, format_text("the class \\p{{{}}}", name));
        // Join adjacent ranges of several categories: PCRE2 tests ranges one by one.
        std::vector<PointRange> joined;
        for (const PointRange& range : ranges) {
            if (!joined.empty() && joined.back().last + 1 == range.first)
                joined.back().last = range.last;
            else
                joined.push_back(range);
        }
        if (inverted) joined = complement(joined);
        out_ += in_class ? spelt_out(joined) : "[" + spelt_out(joined) + "]";
        return std::nullopt;
    }

    std::optional<Failure> escape(bool in_class) {
        if (place_ + 1 == pattern_.size()) return refused(pattern_, "a \\ at its end");
        const char c = pattern_[place_ + 1];
        if (c == 'p' || c == 'P') return property(in_class);
        static constexpr std::string_view classes = "sSdDwW";
        if (classes.find(c) != std::string_view::npos) {
            const char lower = static_cast<char>(c | 0x20);
            place_ += 2;
            return put_class(lower == 's'   ? "space"
                             : lower == 'd' ? "Nd"
                                            : "word",
                             lower != c, in_class);
        }
        static constexpr std::string_view same = "nrtfvae";
        const bool is_plain = static_cast<unsigned char>(c) < 0x80 &&
                              std::string_view("_").find(c) == std::string_view::npos &&
                              (std::isalnum(static_cast<unsigned char>(c)) == 0);
        if (c == 'v') {
            out_ += "\\x0b";  // a class in PCRE2, but one character in Oniguruma
        } else if (same.find(c) != std::string_view::npos || is_plain) {
            out_ += pattern_.substr(place_, 2);
        } else if (c == 'A' && !in_class) {
            out_ += "\\A";
        } else if ((c == 'z' || c == 'Z') && !in_class) {
            out_ += pattern_.substr(place_, 2);
        } else if (c == 'x' || c == 'u') {
            return number(c);
        } else {
            return refused(pattern_, format_text("\\{}", c));
        }
        place_ += 2;
        return std::nullopt;
    }

    // Parses \x41, \x{4e00} or \u4e00.
    std::optional<Failure> number(char kind) {
        place_ += 2;
        const bool braces = kind == 'x' && place_ < pattern_.size() && pattern_[place_] == '{';
        if (braces) ++place_;
        const size_t most = braces ? 6 : kind == 'u' ? 4 : 2;
        char32_t value = 0;
        size_t digits = 0;
        while (digits < most && place_ < pattern_.size() &&
               std::isxdigit(static_cast<unsigned char>(pattern_[place_])) != 0) {
            const char c = pattern_[place_++];
            value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
            ++digits;
        }
        const bool closed = !braces || (place_ < pattern_.size() && pattern_[place_] == '}');
        // For Oniguruma, \x above 7F is a byte, not a character.
        if (digits == 0 || !closed || (kind == 'u' && digits != 4) || value > 0x10FFFF ||
            (kind == 'x' && !braces && value > 0x7F))
            return refused(pattern_, format_text("\\{} with an unclear number", kind));
        if (braces) ++place_;
        out_ += hex(value);
        return std::nullopt;
    }

    std::optional<Failure> char_class() {
        out_ += '[';
        ++place_;
        if (next_is("^")) {
            out_ += '^';
            ++place_;
        }
        if (next_is("]")) return refused(pattern_, "[]");
        while (place_ < pattern_.size() && pattern_[place_] != ']') {
            const char c = pattern_[place_];
            if (c == '[') return refused(pattern_, "a class within a class");
            if (next_is("&&")) return refused(pattern_, "&& in a class");
            if (c == '\\') {
                if (auto failure = escape(true)) return failure;
            } else {
                out_ += c;
                ++place_;
            }
        }
        if (place_ == pattern_.size()) return refused(pattern_, "[ without ]");
        out_ += ']';
        ++place_;
        return std::nullopt;
    }

    // Parses {2}, {1,3}, {2,} or {,3}. In PCRE2 a + after it would mean possessive, in Oniguruma it
    // does not.
    std::optional<Failure> interval() {
        const size_t end = pattern_.find('}', place_);
        if (end == std::string_view::npos) return refused(pattern_, "{ without }");
        const std::string_view inside = pattern_.substr(place_ + 1, end - place_ - 1);
        const bool is_interval =
            !inside.empty() && inside != "," && std::ranges::count(inside, ',') <= 1 &&
            std::ranges::all_of(inside, [](char c) { return c == ',' || (c >= '0' && c <= '9'); });
        if (!is_interval) return refused(pattern_, format_text("{{{}}}", inside));
        out_ += '{';
        if (inside.front() == ',') out_ += '0';
        out_ += inside;
        out_ += '}';
        place_ = end + 1;
        if (next_is("+")) return refused(pattern_, format_text("{{{}}}+", inside));
        return std::nullopt;
    }

    std::optional<Failure> group() {
        static constexpr std::string_view known[] = {
            "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
        for (const std::string_view opening : known)
            if (next_is(opening)) {
                out_ += opening;
                place_ += opening.size();
                return std::nullopt;
            }
        if (next_is("(?") || next_is("(*"))
            return refused(pattern_, concat(pattern_.substr(place_, 3)));
        out_ += '(';
        ++place_;
        return std::nullopt;
    }

    std::string_view pattern_;
    size_t place_ = 0;
    std::string out_;
};

}  // namespace

Expected<std::string> to_pcre2(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace ringshard::text
