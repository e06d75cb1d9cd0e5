#include "ringshard/base/text.hpp"

// Compiled by tests with several patterns.
std::string with_one_value(int value) { return ringshard::format_text(PATTERN, value); }
