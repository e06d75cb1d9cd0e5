#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace ringshard {

// A value as operator<< writes it. Refers to the value: only for the arguments of a call.
class TextPart {
public:
    TextPart(const char* text) : text_(text) {}
    TextPart(std::string_view text) : text_(text) {}
    TextPart(const std::string& text) : text_(text) {}
    template <class Value>
    TextPart(const Value& value)
        : value_(&value), write_([](std::ostream& out, const void* written) {
              out << *static_cast<const Value*>(written);
          }) {}
    void write(std::ostream& out) const {
        if (write_ == nullptr)
            out << text_;
        else
            write_(out, value_);
    }

private:
    std::string_view text_;
    const void* value_ = nullptr;
    void (*write_)(std::ostream& out, const void* written) = nullptr;
};

// The holes {} of a pattern ({{ and }} are braces); -1 if a brace stands alone.
constexpr int64_t count_holes(std::string_view pattern) {
    int64_t holes = 0;
    for (size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '{' && pattern[i] != '}') continue;
        const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
        if (pattern[i] == '{' && next == '}')
            ++holes;
        else if (next != pattern[i])
            return -1;
        ++i;
    }
    return holes;
}

// A pattern for a number of values, checked by the compiler.
template <size_t values>
struct TextPattern {
    consteval TextPattern(const char* pattern) : text(pattern) {
        if (count_holes(pattern) != int64_t{values}) throw "a pattern has as many holes as values";
    }
    std::string_view text;
};

std::string fill_holes(std::string_view pattern, std::initializer_list<TextPart> values);
std::string join_parts(std::initializer_list<TextPart> parts);

// format_text("cp_size {} does not divide {}", 3, 8). Not named format: from GCC 13 on, strings
// among the values would make std::format a candidate.
inline std::string format_text() { return {}; }
template <class... Values>
std::string format_text(TextPattern<sizeof...(Values)> pattern, const Values&... values) {
    return fill_holes(pattern.text, {TextPart(values)...});
}

// concat(folder, name): values without words between them.
template <class... Parts>
std::string concat(const Parts&... parts) {
    return join_parts({TextPart(parts)...});
}

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string shape_text(const std::vector<int64_t>& shape);  // "[3, 32]"
std::vector<std::string> split(std::string_view whole, char separator);
std::string_view trim(std::string_view padded);
std::string lower_case(std::string_view mixed);
std::string upper_case(std::string_view mixed);

// Reads a whole number: a sign and digits, nothing else. Returns nothing for any other text.
std::optional<int64_t> read_whole_number(std::string_view digits);

// The shortest decimal form that reads back as the same double: 2e-05, 0.1, 3.
std::string shortest(double value);

// Bytes for people: "512 B", "1.5 MiB".
std::string human_bytes(double bytes);

// "5GB", "1.5 MB" or "4096": bytes, in powers of 1000 as transformers counts them; nothing if it is
// no such text, or less than one byte.
std::optional<int64_t> read_bytes(std::string_view text);

// Returns the known name nearest to a misspelt one; empty if none is near.
std::string nearest_name(std::string_view misspelt, const std::vector<std::string>& known);

}  // namespace ringshard
