#include "check_rope.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

namespace {

using nlohmann::json;

// The kinds of positions that this program serves, as rope_type names them, and numbers of each.
constexpr std::array kinds{"default", "linear", "llama3", "yarn", "longrope", "dynamic"};
constexpr std::array numbers{"rope_theta",       "partial_rotary_factor",
                             "factor",           "original_max_position_embeddings",
                             "attention_factor", "beta_fast",
                             "beta_slow",        "mscale",
                             "mscale_all_dim",   "low_freq_factor",
                             "high_freq_factor", "alpha"};
constexpr std::array of_layers{"full_attention", "sliding_attention"};

std::string check_positions(const json& positions, const std::string& where) {
    if (!positions.is_object()) return where + "must be a mapping";
    for (const char* const key : {"rope_type", "type"}) {
        if (!positions.contains(key) || positions[key].is_null()) continue;
        const std::string kind =
            positions[key].is_string() ? positions[key].get<std::string>() : "";
        if (std::ranges::find(kinds, kind) != kinds.end()) continue;
        const std::string nearest = nearest_name(kind, {kinds.begin(), kinds.end()});
        return format_text(
            "{}{} = {}: this program serves the positions default, linear, llama3, "
            "yarn and longrope{}{}{}",
            where, key, positions[key].dump(), nearest.empty() ? "" : "; did you mean ", nearest,
            nearest.empty() ? "" : "?");
    }
    for (const char* const key : numbers)
        if (positions.contains(key) && !positions[key].is_null() &&
            !(positions[key].is_number() && positions[key].get<double>() > 0))
            return format_text("{}{} = {}: must be a number above 0", where, key,
                               positions[key].dump());
    return {};
}

}  // namespace

std::string wrong_rope_parameters(const std::string& text) {
    if (text.empty()) return {};
    const json given = json_or_null<json>(text);
    if (!given.is_object()) return "must be a mapping, such as {\"rope_type\": \"yarn\", ...}";
    const bool is_by_layer =
        std::ranges::any_of(of_layers, [&](const char* name) { return given.contains(name); });
    if (!is_by_layer) return check_positions(given, "");
    for (const auto& [name, positions] : given.items()) {
        if (std::ranges::find(of_layers, name) == of_layers.end())
            return format_text("{}: full_attention and sliding_attention have a mapping each",
                               name);
        std::string wrong = check_positions(positions, name + ": ");
        if (!wrong.empty()) return wrong;
    }
    return {};
}

}  // namespace ringshard::config
