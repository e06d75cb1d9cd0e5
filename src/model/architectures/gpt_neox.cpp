#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries, keys and values are one tensor, head by head; attention and MLP, without a gate, read
// the same input, each through a LayerNorm of its own.
static ModelSpec read_gpt_neox(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "layer_norm_eps",
                                  .learns_padding = true,
                                  .activation = "gelu",
                                  .rope = {.theta_name = "rotary_emb_base",
                                           .part_name = "rotary_pct",
                                           .may_be_partial = true,
                                           .rotates_pairs = true,
                                           .rotated_part = 0.25}});
    check_plain_heads(config, spec, "GPT-NeoX");
    spec.names = {.embedding = "gpt_neox.embed_in",
                  .blocks = "gpt_neox.layers",
                  .final_norm = "gpt_neox.final_layer_norm",
                  .head = "embed_out"};
    const bool is_parallel = config.boolean("use_parallel_residual", true);
    const bool has_bias = config.boolean("attention_bias", true);
    for (BlockSpec& block : spec.blocks) {
        block.feed_forward().is_parallel = is_parallel;
        block.attention().is_fused = block.attention().is_fused_by_heads = true;
        block.attention().has_bias = block.attention().has_out_bias = has_bias;
        block.attention().qkv = "attention.query_key_value";
        block.attention().out = "attention.dense";
        block.mlp().is_gated = false;
        block.mlp().has_bias = true;
        block.mlp().up = "mlp.dense_h_to_4h";
        block.mlp().down = "mlp.dense_4h_to_h";
    }
    return spec;
}

Family gpt_neox() {
    return {
        {"GPTNeoXForCausalLM",
         "gpt_neox",
         read_gpt_neox,
         {.score_class = "GPTNeoXForSequenceClassification",
          .fields = {"layer_norm_eps", "rotary_emb_base", "rotary_pct", "use_parallel_residual"},
          .peft = {.targets = {"query_key_value"}}}}};
}

}  // namespace ringshard::model::architectures
