#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "ringshard/base/expected.hpp"

namespace ringshard {

// Parses a JSON document by read_json(), after a byte order mark if there is one. Json:
// nlohmann::json or nlohmann::ordered_json, which holds and prints the value.
template <class Json>
Expected<Json> parse_json(std::string_view text);
// Returns null if the text is no JSON.
template <class Json>
Json json_or_null(std::string_view text);

}  // namespace ringshard
