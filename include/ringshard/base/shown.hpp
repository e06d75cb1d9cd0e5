#pragma once

#include <string>
#include <string_view>

// Text of users and of files in messages.
namespace ringshard {

// Returns a value with control characters as \n or \x1b.
std::string with_escapes(std::string_view value);

// Returns at most 200 characters of a value, with control characters as \n or \x1b: so a value
// neither begins a line nor moves the cursor of a terminal.
std::string shown(std::string_view value);

// Returns a whole message, of one line or more, for a terminal: with other control characters as
// \x1b, and without the middle of a line of more than 4,000 characters.
std::string shown_message(std::string_view message);

}  // namespace ringshard
