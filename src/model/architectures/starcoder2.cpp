#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// LayerNorms, biases and an MLP without a gate.
static ModelSpec read_starcoder2(ConfigReader& config) {
    ModelSpec spec =
        read_plain_model(config, {.key_heads = 2,
                                  .norm = {.epsilon = 1e-5, .is_centred = true, .has_bias = true},
                                  .norm_name = "norm_epsilon",
                                  .tied = true,
                                  .activation = "gelu_pytorch_tanh",
                                  .initializer_range = 0.018042});
    read_use_bias(config, spec, true);
    set_window_of_all(spec, read_window(config, std::nullopt));
    for (BlockSpec& block : spec.blocks) {
        block.mlp().is_gated = false;
        block.mlp().up = "mlp.c_fc";
        block.mlp().down = "mlp.c_proj";
    }
    return spec;
}

Family starcoder2() {
    return {{"Starcoder2ForCausalLM",
             "starcoder2",
             read_starcoder2,
             {.score_class = "Starcoder2ForSequenceClassification", .fields = {"norm_epsilon"}}}};
}

}  // namespace ringshard::model::architectures
