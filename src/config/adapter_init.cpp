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

namespace {

std::optional<std::vector<int64_t>> read_whole_numbers(const nlohmann::ordered_json& list) {
    if (!list.is_array()) return std::nullopt;
    std::vector<int64_t> numbers;
    for (const auto& number : list) {
        if (!number.is_number_integer()) return std::nullopt;
        numbers.push_back(number.get<int64_t>());
    }
    return numbers;
}

}  // namespace

std::optional<TrainedTokens> read_trained_tokens(const std::string& text) {
    TrainedTokens tokens;
    if (text.empty() || text == "null") return tokens;
    const auto content = json_or_null<nlohmann::ordered_json>(text);
    if (content.is_array()) {
        auto rows = read_whole_numbers(content);
        if (!rows) return std::nullopt;
        tokens.emplace_back("", std::move(*rows));
        return tokens;
    }
    if (!content.is_object()) return std::nullopt;
    for (const auto& [module, list] : content.items()) {
        auto rows = read_whole_numbers(list);
        if (!rows || module.empty()) return std::nullopt;
        tokens.emplace_back(module, std::move(*rows));
    }
    return tokens;
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
