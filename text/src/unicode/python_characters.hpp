#pragma once

#include <string>
#include <string_view>

#include "ringshard/base/utf8.hpp"

// Properties and cases of code points, and of texts, as Python has them. All texts are UTF-8.
namespace ringshard::text::jinja {

bool is_space(char32_t c);
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_printable(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
// May begin, or go on with, an identifier.
bool starts_name(char32_t c);
bool is_name_part(char32_t c);
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
