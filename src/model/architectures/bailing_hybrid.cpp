#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// transformers writes another head_dim than it reads, and the heads of delta nets beside it.
static DeltaNetSpec read_delta(ConfigReader& config, int64_t heads) {
    const char* const name = config.has("linear_head_dim") ? "linear_head_dim" : "head_dim";
    const int64_t dim = config.whole_number_or(name, widest, 128);
    if (config.has("linear_num_heads") && config.part("linear_num_heads") != heads)
        config.complain(format_text("linear_num_heads = {}: must be num_attention_heads = {}",
                                    shown(config.part("linear_num_heads").dump()), heads));
    check_taps(config, "short_conv_kernel_size",
               config.whole_number_or("short_conv_kernel_size", widest, 4));
    DeltaNetSpec delta{.sizes = square_states(config, name, heads, dim),
                       .layers = DeltaLayers::of_heads,
                       .module = "attention",
                       .out = "attention.dense",
                       .opening = ops::Opening::sigmoid};
    if (!config.boolean("kda_safe_gate", true)) return delta;
    const nlohmann::json least =
        config.has("kda_lower_bound") ? config.part("kda_lower_bound") : nlohmann::json(-5.0);
    if (least.is_number() && least < 0)
        delta.least_log_decay = least.get<double>();
    else
        config.complain(format_text("kda_lower_bound = {}: must be below 0", shown(least.dump())));
    return delta;
}

// Ling 3.0: delta nets with bounded decays by row beside attention to latents with a gate for each
// head, and experts behind both in all blocks but the first ones.
static ModelSpec read_bailing_hybrid(ConfigReader& config) {
    ModelSpec spec =
        read_latent_model(config, {.model = {.names = {.positions = "model_max_length"},
                                             .max_positions = 262144,
                                             .padding_token = 156892,
                                             .rope = {.theta = 6e6, .is_interleaved = true}},
                                   .latent = {.rank = 512,
                                              .query_rank = 0,
                                              .rotated = 64,
                                              .value_dim = 128,
                                              .module = "attention",
                                              .out = "attention.dense",
                                              .gates = HeadGates::sigmoid_of_heads},
                                   .ignores_further_blocks = true,
                                   .ignores_head_dim = true});
    ExpertsSpec experts = read_grouped_experts(config, spec,
                                               {.count = 512,
                                                .per_token = 8,
                                                .scaling = 2.5,
                                                .count_name = "num_experts",
                                                .shared_name = "num_shared_experts",
                                                .per_token_name = "num_experts_per_token",
                                                .normalises_name = "moe_renormalize",
                                                .groups_name = "num_expert_group",
                                                .groups = 8,
                                                .chosen_groups = 4});
    experts.correction = "mlp.gate.expert_bias";
    const DeltaNetSpec delta = read_delta(config, spec.heads().query_heads);
    const std::vector<bool> has_state = read_grouped_states(
        config, spec.blocks.size(), config.whole_number_or("layer_group_size", most_blocks, 6));
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        if (has_state[block]) spec.blocks[block].mixer().part = delta;
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size(), 2));
    spec.names.embedding = "model.word_embeddings";
    return spec;
}

Family bailing_hybrid() {
    return {
        {"BailingHybridForCausalLM",
         "bailing_hybrid",
         read_bailing_hybrid,
         {.fields = {"kda_lower_bound", "kda_safe_gate", "layer_group_size", "linear_head_dim",
                     "linear_num_heads", "model_max_length", "moe_renormalize", "num_expert_group",
                     "num_experts_per_token", "num_shared_experts", "short_conv_kernel_size"}}}};
}

}  // namespace ringshard::model::architectures
