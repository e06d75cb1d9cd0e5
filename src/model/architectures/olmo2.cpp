#include "common.hpp"

namespace ringshard::model {

// Norms stand behind the branches of a block, and queries and keys are normed over all heads.
ModelSpec read_olmo2(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.norm = {.epsilon = 1e-5}, .padding_token = 1});
    read_biases(config, spec);
    for (BlockSpec& block : spec.blocks) {
        block.attention_norms = {.before = {}, .behind = "post_attention_layernorm"};
        block.attention.head_norm = HeadNormKind::all_heads;
        block.mlp_norms = {.before = {}, .behind = "post_feedforward_layernorm"};
    }
    return spec;
}

}  // namespace ringshard::model
