#include <algorithm>
#include <charconv>

#include "ringshard/base/utf8.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::text {

namespace {

constexpr int deepest = 500;

// Of members with the same name keeps the last value, at the first one's position.
void drop_repeated(Value::Object& members) {
    const auto is_repeated = [&](const auto& member) {
        return std::ranges::count(members, member.first, [](const auto& m) { return m.first; }) > 1;
    };
    if (members.size() <= 8 && std::ranges::none_of(members, is_repeated)) return;
    std::vector<std::string_view> names;
    for (const auto& member : members) names.emplace_back(member.first);
    std::ranges::sort(names);
    if (std::ranges::adjacent_find(names) == names.end()) return;
    Value unique{Value::Object()};
    for (auto& [name, value] : members) unique.set(name, std::move(value));
    members = std::move(*unique.object());
}

// Parses a document in one pass. Stops at the first error, and records its kind and byte.
class Reader {
public:
    explicit Reader(std::string_view json)
        : begin_(json.data()), at_(begin_), end_(begin_ + json.size()) {}

    Expected<Value> read() {
        if (!is_utf8({begin_, end_})) return Failure{ExitCode::bad_data, "is not UTF-8"};
        Value value;
        const bool is_whole =
            read_value(value, 0) && (skip_space(), at_ == end_ || fail("nothing more"));
        if (is_whole) return value;
        return Failure{ExitCode::bad_data,
                       concat("at byte ", at_ - begin_ + 1, " there should be ", expected_)};
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

    bool read_value(Value& value, int depth) {
        if (depth > deepest) return fail("less depth");
        skip_space();
        if (at_ == end_) return fail("a value");
        switch (*at_) {
            case '{': return read_object(value, depth);
            case '[': return read_list(value, depth);
            case '"': {
                std::string text;
                if (!read_text(text)) return false;
                value = Value(std::move(text));
                return true;
            }
            case 't': value = Value(true); return take("true") || fail("a value");
            case 'f': value = Value(false); return take("false") || fail("a value");
            case 'n': value = Value(); return take("null") || fail("a value");
            default: return read_number(value);
        }
    }

    bool read_list(Value& value, int depth) {
        Value::List items;
        ++at_;
        if (!take(']')) {
            do {
                if (!read_value(items.emplace_back(), depth + 1)) return false;
            } while (take(','));
            if (!take(']')) return fail("',' or ']'");
        }
        value = Value(std::move(items));
        return true;
    }

    bool read_object(Value& value, int depth) {
        Value::Object members;
        ++at_;
        if (!take('}')) {
            do {
                auto& [name, member] = members.emplace_back();
                skip_space();
                if (at_ == end_ || *at_ != '"') return fail("the name of a member");
                if (!read_text(name)) return false;
                if (!take(':')) return fail("':'");
                if (!read_value(member, depth + 1)) return false;
            } while (take(','));
            if (!take('}')) return fail("',' or '}'");
        }
        drop_repeated(members);
        value = Value(std::move(members));
        return true;
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

    bool read_number(Value& value) {
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
        int64_t integer = 0;
        uint64_t large = 0;
        double real = 0;
        if (is_whole && std::from_chars(at_, end, integer).ec == std::errc())
            value = Value(integer);
        else if (is_whole && std::from_chars(at_, end, large).ec == std::errc())
            value = Value(large);
        else if (std::from_chars(at_, end, real).ec == std::errc())
            value = Value(real);
        else
            return fail("a smaller number");
        at_ = end;
        return true;
    }

    const char* begin_;
    const char* at_;
    const char* end_;
    const char* expected_ = "";
};

}  // namespace

Expected<Value> read_json(std::string_view json) { return Reader(json).read(); }

}  // namespace ringshard::text
