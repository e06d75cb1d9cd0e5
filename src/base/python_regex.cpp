#include "python_regex.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "ringshard/base/text.hpp"

namespace ringshard {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Failure unknown(std::string_view what) {
    return {ExitCode::settings, format_text("Python's re has no {}", what)};
}

class Translation {
public:
    explicit Translation(std::string_view pattern) : pattern_(pattern) {}

    Expected<std::string> run() {
        while (place_ < pattern_.size()) {
            const char c = pattern_[place_];
            if (c == '\\') {
                if (auto failure = escape(false)) return *failure;
            } else if (c == '[') {
                if (auto failure = char_class()) return *failure;
            } else if (c == '(') {
                if (auto failure = group()) return *failure;
            } else if (c == '{') {
                interval();
            } else {
                take(1);
            }
        }
        return out_;
    }

private:
    bool next_is(std::string_view text) const { return pattern_.substr(place_).starts_with(text); }
    void take(size_t count) {
        out_ += pattern_.substr(place_, count);
        place_ += count;
    }

    std::optional<Failure> escape(bool in_class) {
        if (place_ + 1 == pattern_.size()) return unknown("\\ at the end of an expression");
        const char c = pattern_[place_ + 1];
        static constexpr std::string_view everywhere = "dDsSwWafnrtx";
        static constexpr std::string_view outside = "AbBZ";
        const bool is_known = everywhere.find(c) != std::string_view::npos ||
                              (!in_class && outside.find(c) != std::string_view::npos) ||
                              (in_class && c == 'b') ||
                              std::isalpha(static_cast<unsigned char>(c)) == 0;
        if (c == 'v') {
            out_ += "\\x0b";  // a class in PCRE2
            place_ += 2;
        } else if (c == 'u') {
            return code_point();
        } else if (c == 'Z' && !in_class) {
            out_ += "\\z";  // PCRE2's \Z matches before a line break, too
            place_ += 2;
        } else if (is_known) {
            take(2);
        } else {
            return unknown(pattern_.substr(place_, 2));
        }
        return std::nullopt;
    }

    // \u20ac
    std::optional<Failure> code_point() {
        constexpr size_t digits = 4;
        const std::string_view number = pattern_.substr(place_ + 2, digits);
        const bool is_number = std::ranges::all_of(
            number, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
        if (number.size() < digits || !is_number) return unknown("\\u without four digits");
        out_ += format_text("\\x{{{}}}", number);
        place_ += 2 + digits;
        return std::nullopt;
    }

    // In Python, a [ in a class is a character.
    std::optional<Failure> char_class() {
        take(1);
        if (next_is("^")) take(1);
        if (next_is("]")) {
            out_ += "\\]";
            ++place_;
        }
        while (place_ < pattern_.size() && pattern_[place_] != ']') {
            if (pattern_[place_] == '\\') {
                if (auto failure = escape(true)) return failure;
            } else if (pattern_[place_] == '[') {
                out_ += "\\[";
                ++place_;
            } else {
                take(1);
            }
        }
        if (place_ == pattern_.size()) return unknown("[ without ]");
        take(1);
        return std::nullopt;
    }

    // Only the groups that both have; so no recursion and no verbs.
    std::optional<Failure> group() {
        static constexpr std::array<std::string_view, 9> both{"(?:", "(?=",  "(?!",  "(?<=", "(?<!",
                                                              "(?>", "(?P<", "(?P=", "(?#"};
        for (const std::string_view opening : both)
            if (next_is(opening)) {
                take(opening.size());
                return std::nullopt;
            }
        if (next_is("(?")) {
            return flags();
        }
        if (next_is("(*")) return unknown("(*");
        take(1);
        return std::nullopt;
    }

    // (?i) at the beginning, or (?i:...). Names are ASCII, so that a and u change nothing.
    std::optional<Failure> flags() {
        const size_t end = pattern_.find_first_of(":)", place_);
        if (end == std::string_view::npos) return unknown(pattern_.substr(place_, 3));
        std::string given(pattern_.substr(place_ + 2, end - place_ - 2));
        const bool is_known =
            !given.empty() && given.find_first_not_of("aimsux-") == std::string::npos;
        if (!is_known) return unknown(pattern_.substr(place_, 3));
        if (place_ != 0 && pattern_[end] == ')')
            return unknown("flags behind the beginning of an expression");
        std::erase_if(given, [](char c) { return c == 'a' || c == 'u'; });
        out_ += format_text("(?{}{}", given, pattern_[end]);
        place_ = end + 1;
        return std::nullopt;
    }

    // {,3} is an interval from 0 in Python.
    void interval() {
        size_t end = place_ + 1;
        while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
        const bool has_minimum = end > place_ + 1;
        if (has_minimum || !next_is("{,")) return take(1);
        ++end;
        while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
        if (end == pattern_.size() || pattern_[end] != '}') return take(1);
        out_ += "{0";
        ++place_;
    }

    std::string_view pattern_;
    size_t place_ = 0;
    std::string out_;
};

}  // namespace

Expected<std::string> from_python_regex(std::string_view pattern) {
    return Translation(pattern).run();
}

}  // namespace ringshard
