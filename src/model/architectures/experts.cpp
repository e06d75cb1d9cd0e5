#include <algorithm>

#include "common.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

constexpr int64_t most_experts = 1 << 16;

// transformers writes the number under either name.
int64_t read_count(ConfigReader& config, const ExpertDefaults& defaults) {
    if (defaults.count_name != nullptr)
        return config.whole_number_or(defaults.count_name, most_experts, defaults.count);
    const json here = config.part("num_experts");
    const json local = config.part("num_local_experts");
    if (!here.is_null() && !local.is_null() && here != local)
        config.complain(format_text(
            "num_experts = {} and num_local_experts = {}: are one number; correct the wrong one",
            here.dump(), local.dump()));
    return config.whole_number_or(here.is_null() ? "num_local_experts" : "num_experts",
                                  most_experts, defaults.count);
}

double read_aux_loss(ConfigReader& config, double usual) {
    if (!config.has("router_aux_loss_coef")) return usual;
    const json value = config.part("router_aux_loss_coef");
    if (value.is_number() && value.get<double>() >= 0) return value.get<double>();
    config.complain(
        format_text("router_aux_loss_coef = {}: must be a number from 0 on", value.dump()));
    return 0;
}

}  // namespace

std::vector<bool> read_dense_blocks(ConfigReader& config, size_t num_blocks) {
    const auto every =
        static_cast<size_t>(config.whole_number_or("decoder_sparse_step", most_blocks, 1));
    std::vector<bool> dense(num_blocks);
    for (size_t block = 0; block < num_blocks; ++block) dense[block] = (block + 1) % every != 0;
    if (!config.has("mlp_only_layers")) return dense;
    const json layers = config.part("mlp_only_layers");
    const auto is_block = [&](const json& layer) {
        return layer.is_number_unsigned() && layer.get<size_t>() < num_blocks;
    };
    if (!layers.is_array() || !std::ranges::all_of(layers, is_block)) {
        config.complain(format_text("mlp_only_layers = {}: must be a list of numbers from 0 to {}",
                                    layers.dump(), num_blocks - 1));
        return dense;
    }
    for (const json& layer : layers) dense[layer.get<size_t>()] = true;
    return dense;
}

ExpertsSpec read_experts(ConfigReader& config, ModelSpec& spec, const ExpertDefaults& defaults) {
    ExpertsSpec experts;
    experts.count = read_count(config, defaults);
    experts.per_token =
        config.whole_number_or(defaults.per_token_name, most_experts, defaults.per_token);
    if (experts.per_token > experts.count)
        config.complain(format_text("{} = {}: must be at most the number of experts, {}",
                                    defaults.per_token_name, experts.per_token, experts.count));
    experts.intermediate = config.whole_number(defaults.intermediate_name, widest);
    experts.activation = spec.blocks.front().mlp.activation;
    spec.has_router_aux_loss = defaults.aux_loss.has_value();
    if (defaults.aux_loss) spec.router_aux_loss_coef = read_aux_loss(config, *defaults.aux_loss);
    return experts;
}

}  // namespace ringshard::model
