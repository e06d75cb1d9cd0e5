#include "common.hpp"

namespace ringshard::model {

namespace {

// The groups of experts among which a token chooses.
void read_groups(ConfigReader& config, ExpertsSpec& experts) {
    const int64_t groups = config.whole_number_or("n_group", widest, 1);
    const int64_t chosen = config.whole_number_or("topk_group", widest, 1);
    experts.routing.groups = groups;
    experts.routing.chosen_groups = chosen;
    if (experts.count % groups != 0 || experts.count / groups < 2)
        config.complain(
            format_text("n_group = {}: must divide n_routed_experts = {} into groups of at least 2",
                        groups, experts.count));
    else if (chosen > groups || experts.count / groups * chosen < experts.per_token)
        config.complain(
            format_text("topk_group = {}: must be at most n_group = {}, and so many groups must "
                        "have num_experts_per_tok = {} experts",
                        chosen, groups, experts.per_token));
}

ExpertsSpec read_grouped_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 128,
                                        .per_token = 8,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "n_routed_experts"});
    experts.routing.is_sigmoid = true;
    experts.routing.normalises = config.boolean("norm_topk_prob", true);
    experts.routing.added_to_sum = 1e-20;
    experts.routing.scaling = config.number_above_0("routed_scaling_factor", 1.0);
    experts.routes_in_fp32 = true;
    experts.correction = "mlp.gate.e_score_correction_bias";
    read_groups(config, experts);
    const int64_t shared = config.whole_number_or("n_shared_experts", most_blocks, 1);
    experts.shared = MlpSpec{.intermediate = experts.intermediate * shared,
                             .activation = experts.activation,
                             .gate = "mlp.shared_experts.gate_proj",
                             .up = "mlp.shared_experts.up_proj",
                             .down = "mlp.shared_experts.down_proj"};
    return experts;
}

}  // namespace

// Experts beside an MLP in all blocks but the first ones. Files may hold blocks behind the last
// one, which predict further tokens.
ModelSpec read_glm4_moe(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.key_heads = 8,
                                  .norm = {.epsilon = 1e-5},
                                  .rope = {.may_be_partial = true, .rotated_part = 0.5}});
    read_attention_bias(config, spec, {.has_out = false});
    const bool norms_heads = config.boolean("use_qk_norm", false);
    const ExpertsSpec experts = read_grouped_experts(config, spec);
    const int64_t dense =
        config.has("first_k_dense_replace") && config.part("first_k_dense_replace") == 0
            ? 0
            : config.whole_number_or("first_k_dense_replace", most_blocks, 1);
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        if (norms_heads) spec.blocks[block].attention.head_norm = HeadNormKind::each_head;
        if (static_cast<int64_t>(block) >= dense) spec.blocks[block].experts = experts;
    }
    spec.ignores_further_blocks = true;
    return spec;
}

}  // namespace ringshard::model
