#include <algorithm>

#include "common.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Returns whether each block has an MLP in place of experts, by mlp_only_layers and
// decoder_sparse_step.
std::vector<bool> read_dense_blocks(ConfigReader& config, size_t num_blocks) {
    constexpr int64_t most_blocks = 4096;
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
        config.complain(concat("mlp_only_layers = ", layers.dump(),
                               ": must be a list of numbers from 0 to ", num_blocks - 1));
        return dense;
    }
    for (const json& layer : layers) dense[layer.get<size_t>()] = true;
    return dense;
}

}  // namespace

// Qwen3 with experts in place of the MLP, in some blocks or in all.
ModelSpec read_qwen3_moe(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 4});
    read_attention_bias(config, spec);
    read_windows_of_layers(config, spec);
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 128,
                                        .per_token = 8,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = 0.001});
    experts.normalises = config.boolean("norm_topk_prob", false);
    const std::vector<bool> dense = read_dense_blocks(config, spec.blocks.size());
    for (size_t block = 0; block < dense.size(); ++block) {
        spec.blocks[block].attention.head_norm = HeadNormKind::each_head;
        if (!dense[block]) spec.blocks[block].experts = experts;
    }
    return spec;
}

}  // namespace ringshard::model
