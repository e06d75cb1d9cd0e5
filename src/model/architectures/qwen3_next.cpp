#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Gated attention and gated delta nets, with factors of norms that are learned as the difference
// from 1. The norm behind a delta net's state alone has plain factors.
static ModelSpec read_hybrid(ConfigReader& config, int64_t key_heads, DeltaLayers layers,
                             const char* intermediate_name = "intermediate_size") {
    ModelSpec spec =
        read_plain_model(config, {.head_dim = 256,
                                  .key_heads = key_heads,
                                  .norm = {.epsilon = 1e-6, .adds_one = true},
                                  .intermediate_name = intermediate_name,
                                  .rope = {.may_be_partial = true,
                                           .rotated_part = 0.25,
                                           .other_keys = {"mrope_section", "mrope_interleaved"}}});
    read_attention_bias(config, spec);
    if (spec.blocks.front().mlp().activation != ops::Activation::silu)
        config.complain("hidden_act: must be \"silu\" in a model with gated delta nets");
    const attention::DeltaSizes sizes = read_delta_sizes(
        config, {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128});
    const std::vector<bool> has_state =
        read_grouped_states(config, spec.blocks.size(),
                            config.whole_number_or("full_attention_interval", most_blocks, 4));
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        spec.blocks[block].attention().head_norm = HeadNormKind::each_head;
        spec.blocks[block].attention().gates = HeadGates::in_queries;
        if (has_state[block]) spec.blocks[block].mixer().part = DeltaNetSpec{sizes, layers};
    }
    return spec;
}

// In some blocks or in all.
static void read_sparse_blocks(ConfigReader& config, ModelSpec& spec) {
    if (config.part("num_experts") == 0) return;
    ExpertsSpec experts =
        read_gated_experts(config, spec, {.count = 512, .per_token = 10, .shared = 512});
    experts.routing.normalises = config.boolean("norm_topk_prob", true);
    const std::vector<bool> dense = read_dense_blocks(config, spec.blocks.size());
    for (size_t block = 0; block < dense.size(); ++block)
        if (!dense[block]) spec.blocks[block].feed_forward().part = experts;
}

static ModelSpec read_qwen3_next(ConfigReader& config) {
    ModelSpec spec = read_hybrid(config, 2, DeltaLayers::grouped);
    read_sparse_blocks(config, spec);
    return spec;
}

// The positions of text are the same in all three sections of mrope, so it is plain rope.
static ModelSpec read_qwen3_5(ConfigReader& config) {
    return read_hybrid(config, 4, DeltaLayers::apart);
}

// With experts in all blocks.
static ModelSpec read_qwen3_5_moe(ConfigReader& config) {
    ModelSpec spec = read_hybrid(config, 2, DeltaLayers::apart, "moe_intermediate_size");
    const ExpertsSpec experts =
        read_gated_experts(config, spec, {.count = 256, .per_token = 8, .shared = 512});
    for (BlockSpec& block : spec.blocks) block.feed_forward().part = experts;
    return spec;
}

static ModelSpec read_wrapped_qwen3_5(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "qwen3_5_text", .tied = false});
}

static ModelSpec read_wrapped_qwen3_5_moe(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "qwen3_5_moe_text", .tied = false});
}

Family qwen3_next() {
    return {{"Qwen3NextForCausalLM",
             "qwen3_next",
             read_qwen3_next,
             {.score_class = "Qwen3NextForSequenceClassification",
              .fields = {"full_attention_interval", "linear_conv_kernel_dim", "linear_key_head_dim",
                         "linear_num_key_heads", "linear_num_value_heads", "linear_value_head_dim"},
              .peft = {.converts_experts = true}}},
            {"Qwen3_5ForCausalLM",
             "qwen3_5_text",
             read_qwen3_5,
             {.score_class = "Qwen3_5TextForSequenceClassification"}},
            {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", read_qwen3_5_moe},
            {"Qwen3_5ForConditionalGeneration", "qwen3_5", read_wrapped_qwen3_5},
            {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", read_wrapped_qwen3_5_moe}};
}

}  // namespace ringshard::model::architectures
