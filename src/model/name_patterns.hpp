#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

// Names of tensors, and the expressions that choose some of them.
namespace ringshard::model {

// Returns nothing if the text is no regular expression (ECMAScript's syntax).
std::optional<std::regex> read_regex(const std::string& text);

// The same of an expression that matches whole names, or their ends behind a dot.
std::optional<std::regex> read_end_regex(const std::string& text);

// Returns the names, at most three, that have most in common with an expression that matches none.
std::string nearest_names(std::string expression, std::vector<std::string> names);

}  // namespace ringshard::model
