#include "ringshard/config/adapter_init.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

std::optional<AdapterInit> read_adapter_init(const std::string& text) {
    using Kind = AdapterInit::Kind;
    const std::string word = lower_case(text);
    if (word == "true") return AdapterInit{Kind::uniform};
    if (word == "gaussian") return AdapterInit{Kind::normal};
    if (word == "pissa") return AdapterInit{Kind::pissa};
    if (word == "olora") return AdapterInit{Kind::olora};
    const std::string prefix = "pissa_niter_";
    if (!word.starts_with(prefix)) return std::nullopt;
    const auto iterations = read_whole_number(word.substr(prefix.size()));
    if (!iterations || *iterations < 0) return std::nullopt;
    return AdapterInit{Kind::pissa, *iterations};
}

std::optional<AdapterPatterns> read_adapter_patterns(const std::string& text) {
    AdapterPatterns patterns;
    if (text.empty()) return patterns;
    const auto object = json_or_null<nlohmann::ordered_json>(text);
    if (!object.is_object()) return std::nullopt;
    for (const auto& [pattern, number] : object.items()) {
        if (!number.is_number()) return std::nullopt;
        patterns.emplace_back(pattern, number.get<double>());
    }
    return patterns;
}

}  // namespace ringshard::config
