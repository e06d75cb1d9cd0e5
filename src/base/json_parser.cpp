#include "ringshard/base/json_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "ringshard/base/text.hpp"
#include "ringshard/base/utf8.hpp"

namespace ringshard {

namespace {

constexpr int deepest = 500;

// Parses a document in one pass. Stops at the first error, and records its kind and byte.
class Parser {
public:
    Parser(std::string_view json, JsonReceiver& receiver)
        : begin_(json.data()), at_(begin_), end_(begin_ + json.size()), receiver_(receiver) {}

    std::optional<Failure> read() {
        if (!is_utf8({begin_, end_})) return Failure{ExitCode::bad_data, "is not UTF-8"};
        const bool is_whole = read_value(0) && (skip_space(), at_ == end_ || fail("nothing more"));
        if (is_whole) return std::nullopt;
        const bool has_lines = std::find(begin_, end_, '\n') != end_;
        const std::string line =
            has_lines ? format_text(", in line {},", std::count(begin_, at_, '\n') + 1) : "";
        return Failure{ExitCode::bad_data, format_text("at byte {}{} there should be {}",
                                                       at_ - begin_ + 1, line, expected_)};
    }

private:
    bool fail(const char* expected) {
        expected_ = expected;
        return false;
    }
    void skip_space() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }
    bool take(char c) {
        skip_space();
        if (at_ == end_ || *at_ != c) return false;
        ++at_;
        return true;
    }
    bool take(std::string_view word) {
        if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    bool read_value(int depth) {
        if (depth > deepest) return fail("less depth");
        skip_space();
        if (at_ == end_) return fail("a value");
        switch (*at_) {
            case '{': return read_object(depth);
            case '[': return read_list(depth);
            case '"': {
                std::string text;
                if (!read_text(text)) return false;
                return receiver_.string(std::move(text));
            }
            case 't': return take("true") ? receiver_.boolean(true) : fail("a value");
            case 'f': return take("false") ? receiver_.boolean(false) : fail("a value");
            case 'n': return take("null") ? receiver_.null() : fail("a value");
            default: return read_number();
        }
    }

    bool read_list(int depth) {
        ++at_;
        if (!receiver_.begin_list()) return false;
        if (!take(']')) {
            do {
                if (!read_value(depth + 1)) return false;
            } while (take(','));
            if (!take(']')) return fail("',' or ']'");
        }
        return receiver_.end_list();
    }

    bool read_object(int depth) {
        ++at_;
        if (!receiver_.begin_object()) return false;
        if (!take('}')) {
            do {
                skip_space();
                if (at_ == end_ || *at_ != '"') return fail("the name of a member");
                std::string name;
                if (!read_text(name)) return false;
                if (!take(':')) return fail("':'");
                if (!receiver_.name(std::move(name)) || !read_value(depth + 1)) return false;
            } while (take(','));
            if (!take('}')) return fail("',' or '}'");
        }
        return receiver_.end_object();
    }

    bool read_text(std::string& text) {
        for (++at_; at_ < end_;) {
            const char* plain = at_;
            while (at_ < end_ && *at_ != '"' && *at_ != '\\' &&
                   static_cast<unsigned char>(*at_) >= 0x20)
                ++at_;
            text.append(plain, at_);
            if (at_ == end_) break;
            if (*at_ == '"') {
                ++at_;
                return true;
            }
            if (*at_ != '\\') return fail("an escape in place of a control character");
            ++at_;
            if (!read_escape(text)) return false;
        }
        return fail("the end of a text");
    }

    bool read_escape(std::string& text) {
        static constexpr std::string_view names = "\"\\/bfnrt";
        static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
        if (at_ == end_) return fail("an escape");
        const size_t known = names.find(*at_);
        if (known != std::string_view::npos) {
            text += meanings[known];
            ++at_;
            return true;
        }
        uint32_t code = 0;
        if (!read_code_unit(code)) return false;
        // A surrogate pair encodes one character above U+FFFF.
        if (code >= 0xDC00 && code <= 0xDFFF) return fail("the first half of a surrogate pair");
        if (code >= 0xD800 && code <= 0xDBFF) {
            uint32_t low = 0;
            if (at_ == end_ || *at_++ != '\\' || !read_code_unit(low) || low < 0xDC00 ||
                low > 0xDFFF)
                return fail("the second half of a surrogate pair");
            code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        }
        append_code_point(text, code);
        return true;
    }

    // Reads uXXXX.
    bool read_code_unit(uint32_t& code) {
        if (end_ - at_ < 5 || *at_ != 'u') return fail("an escape");
        const auto [end, error] = std::from_chars(at_ + 1, at_ + 5, code, 16);
        if (error != std::errc() || end != at_ + 5) return fail("four hexadecimal digits");
        at_ += 5;
        return true;
    }

    bool read_number() {
        const char* end = at_;
        const auto digits = [&] {
            const char* first = end;
            while (end < end_ && *end >= '0' && *end <= '9') ++end;
            return end - first;
        };
        if (end < end_ && *end == '-') ++end;
        const bool begins_with_zero = end < end_ && *end == '0';
        const auto whole_digits = digits();
        if (whole_digits == 0 || (begins_with_zero && whole_digits > 1)) return fail("a value");
        bool is_whole = true;
        if (end < end_ && *end == '.') {
            is_whole = false;
            ++end;
            if (digits() == 0) return fail("a digit after the point");
        }
        if (end < end_ && (*end == 'e' || *end == 'E')) {
            is_whole = false;
            ++end;
            if (end < end_ && (*end == '+' || *end == '-')) ++end;
            if (digits() == 0) return fail("a digit of the exponent");
        }
        return take_number(std::exchange(at_, end), end, is_whole);
    }

    bool take_number(const char* begin, const char* end, bool is_whole) {
        int64_t integer = 0;
        uint64_t large = 0;
        double real = 0;
        if (is_whole && std::from_chars(begin, end, integer).ec == std::errc())
            return receiver_.integer(integer);
        if (is_whole && std::from_chars(begin, end, large).ec == std::errc())
            return receiver_.large(large);
        if (std::from_chars(begin, end, real).ec == std::errc()) return receiver_.real(real);
        // from_chars() has one error for both ends of the range; a number too close to 0 is 0.
        real = std::strtod(std::string(begin, end).c_str(), nullptr);
        if (std::isfinite(real)) return receiver_.real(real);
        at_ = begin;
        return fail("a smaller number");
    }

    const char* begin_;
    const char* at_;
    const char* end_;
    JsonReceiver& receiver_;
    const char* expected_ = "";
};

}  // namespace

std::optional<Failure> read_json(std::string_view json, JsonReceiver& receiver) {
    return Parser(json, receiver).read();
}

}  // namespace ringshard
