#pragma once

#include <string>
#include <string_view>

#include "datum.hpp"

namespace ringshard::text::jinja {

// Python's str() and repr().
void append_text(std::string& out, const Datum& value);
void append_repr(std::string& out, const Datum& value, int depth = 0);
std::string to_text(const Datum& value);
std::string repr(const Datum& value);
std::string real_repr(double value);

std::string escaped(std::string_view text);
// Returns Markup unchanged, and other values escaped.
std::string to_markup(const Datum& value);

struct JsonStyle {
    bool ascii = false;
    bool sorted = false;
    bool indented = false;
    std::string indent;
    std::string item_separator = ", ";
    std::string member_separator = ": ";
};
// Formats a number by printf's "f", "e" or "g".
std::string real_digits(double number, char type, int precision, bool alternate);

std::string json(const Datum& value, const JsonStyle& style);

// Maximum nesting of data for printing and comparing.
constexpr int max_data_depth = 400;

}  // namespace ringshard::text::jinja
