#include <cmath>

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Learned positions, matrices stored turned; scores are fp32, with reorder_and_upcast_attn or not.
static ModelSpec read_gpt2(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "layer_norm_epsilon",
                                  .names = {"n_embd", "n_layer", "n_head", "n_positions"},
                                  .intermediate_name = "n_inner",
                                  .width_multiple = 4,
                                  .max_positions = 1024,
                                  .learns_padding = true,
                                  .tied = true,
                                  .activation = "gelu_new",
                                  .activation_name = "activation_function",
                                  .has_ropes_by_layer = true});
    check_plain_heads(config, spec, "GPT-2");
    refuse_usual_dropout(config, {"attn_pdrop", "embd_pdrop", "resid_pdrop"});
    refuse_flag(config, "add_cross_attention");
    if (spec.stored_form.is_quantised())
        config.complain("quantization_config: is not served with turned matrices");
    spec.names = {"transformer.wte", "transformer.h", "transformer.ln_f", "lm_head",
                  "transformer.wpe"};
    spec.initial_part_of_outputs = 1 / std::sqrt(2.0 * double(spec.blocks.size()));
    const ops::ScoreForm usual{.scale = config.boolean("scale_attn_weights", true) ? 0.0 : 1.0};
    const bool falls = config.boolean("scale_attn_by_inverse_layer_idx", false);
    for (int64_t number = 1; BlockSpec & block : spec.blocks) {
        block.matrices = MatrixForm::turned;
        block.mixer().norms.before = "ln_1";
        block.feed_forward().norms.before = "ln_2";
        AttentionSpec& attention = block.attention();
        attention.is_fused = attention.has_bias = attention.has_out_bias = true;
        attention.qkv = "attn.c_attn";
        attention.out = "attn.c_proj";
        attention.rope.reset();
        attention.scores.scale =
            usual.scale_of(attention.heads.head_dim) / double(falls ? number++ : 1);
        block.mlp().is_gated = false;
        block.mlp().has_bias = true;
        block.mlp().up = "mlp.c_fc";
        block.mlp().down = "mlp.c_proj";
    }
    return spec;
}

Family gpt2() {
    return {{"GPT2LMHeadModel",
             "gpt2",
             read_gpt2,
             {.score_class = "GPT2ForSequenceClassification",
              .fields = {"activation_function", "layer_norm_epsilon", "n_embd", "n_head", "n_inner",
                         "n_layer", "n_positions", "reorder_and_upcast_attn",
                         "scale_attn_by_inverse_layer_idx", "scale_attn_weights"},
              .peft = {.targets = {"c_attn"}}}}};
}

}  // namespace ringshard::model::architectures
