#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Every head is normed by itself, and in models with windows the blocks that see everything do not
// rotate.
static ModelSpec read_attention(ConfigReader& config, std::optional<int64_t> padding_token) {
    ModelSpec spec = read_plain_model(
        config, {.key_heads = 32, .norm = {.epsilon = 1e-5}, .padding_token = padding_token});
    for (BlockSpec& block : spec.blocks) block.attention().head_norm = HeadNormKind::each_head;
    const std::optional<int64_t> window = read_window(config, usual_window);
    const std::vector<bool> windows =
        window ? read_window_pattern(config, spec.blocks.size(), 4)
               : read_layer_types(config, spec.blocks.size(), [](size_t) { return false; });
    set_windows(config, spec, windows, window);
    if (window) rotate_windows_alone(spec);
    return spec;
}

// Norms stand behind the branches.
static ModelSpec read_exaone4(ConfigReader& config) {
    ModelSpec spec = read_attention(config, std::nullopt);
    for (BlockSpec& block : spec.blocks) set_norms_behind(block);
    return spec;
}

// Norms stand before the branches, and all blocks but the first ones have experts beside an MLP.
static ModelSpec read_exaone_moe(ConfigReader& config) {
    ModelSpec spec = read_attention(config, 0);
    ExpertsSpec experts = read_grouped_experts(config, spec,
                                               {.count = 64,
                                                .per_token = 8,
                                                .scaling = 2.5,
                                                .count_name = "num_experts",
                                                .shared_name = "num_shared_experts"});
    experts.correction = "mlp.e_score_correction_bias";
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size()));
    spec.ignores_further_blocks = true;
    return spec;
}

Family exaone4() {
    return {{"Exaone4ForCausalLM",
             "exaone4",
             read_exaone4,
             {.score_class = "Exaone4ForSequenceClassification", .fields = {"num_shared_experts"}}},
            {"ExaoneMoeForCausalLM",
             "exaone_moe",
             read_exaone_moe,
             {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
