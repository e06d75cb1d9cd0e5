#include "adapter_parameters.hpp"

#include <algorithm>

#include "module_names.hpp"
#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::peft {

namespace {

// Refuses settings that PEFT refuses for parameters, or reads in another way for them.
std::optional<Failure> check_settings(const LoraConfig& config, const model::ModelSpec& spec) {
    if (config.lora_dropout > 0)
        return refuse(
            format_text("lora_target_parameters, lora_dropout = {}: adapters of parameters have no "
                        "dropout, and PEFT refuses it; give lora_dropout 0",
                        config.lora_dropout));
    if (config.use_dora)
        return refuse(
            "lora_target_parameters, use_dora: adapters of parameters have no "
            "magnitudes, and PEFT refuses them; leave one of the two out");
    if (config.init.kind != config::AdapterInit::Kind::uniform)
        return refuse(
            "lora_target_parameters, init_lora_weights: adapters of parameters begin "
            "uniform; leave init_lora_weights out");
    if (spec.is_wrapped)
        return refuse(format_text(
            "lora_target_parameters: is not served for {}; name linear layers: lora_target_modules",
            spec.architecture));
    return std::nullopt;
}

std::vector<model::LinearLayer> parameters_of(const model::ModelSpec& spec,
                                              const std::vector<model::LinearLayer>& layers) {
    std::vector<model::LinearLayer> parameters;
    for (const model::LinearLayer& layer : layers)
        parameters.push_back({layer.name + ".weight", layer.block, layer.in_block, layer.shape});
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        const model::ExpertsSpec* const experts = spec.blocks[block].experts();
        // transformers calls stacked matrices and those without a gate otherwise, and the router of
        // stacked ones is a layer.
        if (!experts || experts->tensors == model::ExpertTensors::stacked || !experts->is_gated)
            continue;
        const int64_t width = spec.blocks[block].width;
        const auto add = [&](const std::string& name, const char* ending, int64_t out, int64_t in) {
            parameters.push_back(
                {format_text("{}{}{}", model::block_prefix(spec, block), name, ending),
                 block,
                 name,
                 {out, in}});
        };
        add(model::router_name(*experts), ".weight", experts->count, width);
        add(model::experts_gate_up, "", experts->inner_width(), width);
        add(model::experts_down, "", width, experts->intermediate);
    }
    return parameters;
}

// Files of models may have another name for a router than PEFT.
bool is_router(const model::ModelSpec& spec, const std::string& tensor) {
    return std::ranges::any_of(spec.blocks, [&](const model::BlockSpec& block) {
        return block.experts() && is_end_of(block.experts()->router + ".weight", tensor);
    });
}

std::optional<Failure> check_target(const std::string& target, const model::ModelSpec& spec,
                                    const std::vector<model::LinearLayer>& parameters,
                                    const std::vector<std::string>& tensors) {
    std::vector<std::string> names;
    for (const model::LinearLayer& parameter : parameters) names.push_back(parameter.name);
    for (const std::string& tensor : tensors)
        if (is_end_of(target, tensor) && std::ranges::find(names, tensor) == names.end() &&
            !is_router(spec, tensor))
            return refuse(
                format_text("lora_target_parameters = {}: matches {}, which is no matrix of a "
                            "linear layer, not that of a router and not one of all experts; name "
                            "what is meant, as "
                            "mlp.experts.gate_up_proj or self_attn.q_proj.weight",
                            target, tensor));
    if (std::ranges::any_of(names,
                            [&](const std::string& name) { return is_end_of(target, name); }))
        return std::nullopt;
    return refuse(
        format_text("lora_target_parameters = {}: no parameter has this name; the nearest are {}",
                    target, nearest_names(target, std::move(names))));
}

}  // namespace

Expected<std::vector<model::LinearLayer>> find_parameters(
    const LoraConfig& config, const model::ModelSpec& spec,
    const std::vector<model::LinearLayer>& layers, const std::vector<std::string>& tensors) {
    if (config.target_parameters.empty()) return std::vector<model::LinearLayer>();
    if (auto failure = check_settings(config, spec)) return *failure;
    const std::vector<model::LinearLayer> parameters = parameters_of(spec, layers);
    for (const std::string& target : config.target_parameters)
        if (auto failure = check_target(target, spec, parameters, tensors)) return *failure;
    std::vector<model::LinearLayer> found;
    for (const model::LinearLayer& parameter : parameters)
        if (std::ranges::any_of(config.target_parameters, [&](const std::string& target) {
                return is_end_of(target, parameter.name);
            }))
            found.push_back(parameter);
    for (const model::LinearLayer& parameter : found)
        if (const model::ExpertsSpec* const experts = spec.blocks[parameter.block].experts();
            experts && experts->routes_in_fp32 &&
            parameter.in_block == model::router_name(*experts))
            return refuse(format_text(
                "lora_target_parameters: the router {} multiplies in fp32, and an adapter of it is "
                "not served; leave it out, and all-linear too: name layers in lora_target_modules",
                parameter.name));
    return found;
}

}  // namespace ringshard::peft
