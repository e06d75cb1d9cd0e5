#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Attention and MLP, without a gate, read the same LayerNorm; everything has a bias.
static ModelSpec read_phi(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "layer_norm_eps",
                                  .activation = "gelu_new",
                                  .rope = {.may_be_partial = true, .rotated_part = 0.5}});
    refuse_flag(config, "qk_layernorm");
    spec.names.final_norm = "model.final_layernorm";
    spec.has_head_bias = true;
    for (BlockSpec& block : spec.blocks) {
        block.feed_forward().is_parallel = true;
        block.feed_forward().norms = {};
        block.attention().has_bias = block.attention().has_out_bias = true;
        block.attention().out = "self_attn.dense";
        block.mlp().is_gated = false;
        block.mlp().has_bias = true;
        block.mlp().up = "mlp.fc1";
        block.mlp().down = "mlp.fc2";
    }
    return spec;
}

Family phi() {
    return {{"PhiForCausalLM",
             "phi",
             read_phi,
             {.score_class = "PhiForSequenceClassification",
              .fields = {"layer_norm_eps", "qk_layernorm"},
              .peft = {.targets = {"q_proj", "v_proj", "fc1", "fc2"}}}}};
}

}  // namespace ringshard::model::architectures
