#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ringshard/base/expected.hpp"

namespace ringshard {

// Parses a JSON document by read_json(), after a byte order mark if there is one. Json:
// nlohmann::json or nlohmann::ordered_json, which holds and prints the value.
template <class Json>
Expected<Json> parse_json(std::string_view text);
// Returns the first name that an object of the text has twice; empty: none has, or it is no JSON.
std::string repeated_name(std::string_view text);
// Returns null if the text is no JSON.
template <class Json>
Json json_or_null(std::string_view text);

}  // namespace ringshard
