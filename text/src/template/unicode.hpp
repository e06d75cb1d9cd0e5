#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Texts as sequences of code points, like in Python. All texts here are valid UTF-8.
namespace ringshard::text::jinja {

bool is_ascii(std::string_view text);
size_t count_code_points(std::string_view text);
// Returns the byte offset of code point `index`; the end if there are fewer.
size_t byte_of(std::string_view text, size_t index);
// Removes and returns the first code point.
char32_t take_first(std::string_view& text);
char32_t take_last(std::string_view& text);
void append(std::string& out, char32_t code_point);

bool is_space(char32_t c);
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_printable(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
inline bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string casefold(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
std::string swapcase(std::string_view text);

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
inline std::string_view strip(std::string_view text) { return strip_left(strip_right(text)); }

}  // namespace ringshard::text::jinja
