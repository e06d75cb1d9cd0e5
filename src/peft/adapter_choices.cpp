#include <algorithm>

#include "adapter_targets.hpp"
#include "module_names.hpp"
#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::peft {

namespace {

template <class Value>
std::optional<Failure> find_idle_pattern(const char* field, const Patterns<Value>& patterns,
                                         const std::vector<std::string>& adapted) {
    for (const auto& [pattern, value] : patterns) {
        const auto found = names_that_match(field, pattern, Fit::end, adapted);
        if (!found) return found.failure();
        if (found.value().empty())
            return refuse(
                format_text("{}: {} matches no layer that has an adapter; the nearest are {}",
                            field, pattern, nearest_names(pattern, adapted)));
    }
    return std::nullopt;
}

std::optional<Failure> find_idle_block(const LoraConfig& config, size_t num_blocks) {
    if (!config.layers_to_transform) return std::nullopt;
    for (const int64_t block : *config.layers_to_transform)
        if (block < 0 || block >= static_cast<int64_t>(num_blocks))
            return refuse(
                format_text("layers_to_transform = {}: the blocks of this model are 0 to {}", block,
                            num_blocks - 1));
    return std::nullopt;
}

std::optional<Failure> find_idle_exclusion(const LoraConfig& config,
                                           const std::vector<std::string>& layers) {
    for (const std::string& excluded : config.exclude_modules) {
        LoraConfig one = config;
        one.exclude_modules = {excluded};
        const auto found = find_excluded(one, layers);
        if (!found) return found.failure();
        if (found.value().empty())
            return refuse(
                format_text("exclude_modules = {}: matches no linear layer; the nearest are {}",
                            excluded, nearest_names(excluded, layers)));
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> find_idle_choice(const model::ModelSpec& spec, const LoraConfig& config) {
    std::vector<model::LinearLayer> layers = model::linear_layers_of(spec);
    for (const std::string& name : {spec.names.head, spec.names.embedding})
        layers.push_back({name, spec.blocks.size(), name, {}});
    if (config.target_modules.empty() && !config.target_parameters.empty() &&
        (config.layers_to_transform || !config.exclude_modules.empty()))
        return refuse(
            "layers_to_transform, exclude_modules: choose among the layers of lora_target_modules, "
            "and lora_target_parameters are given alone; leave them out");
    if (auto failure = find_idle_block(config, spec.blocks.size())) return failure;
    if (auto failure = find_idle_exclusion(config, names_of(layers))) return failure;
    std::vector<std::string> adapted;
    for (const auto& [layer, adapter] : spec.layers_of(0)) {
        adapted.push_back(layer);
        if (!config.target_parameters.empty()) adapted.push_back(layer + ".weight");
    }
    if (auto failure = find_idle_pattern("rank_pattern", config.rank_pattern, adapted))
        return failure;
    return find_idle_pattern("alpha_pattern", config.alpha_pattern, adapted);
}

}  // namespace ringshard::peft
