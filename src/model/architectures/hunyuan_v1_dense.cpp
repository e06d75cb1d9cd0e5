#include "common.hpp"

namespace ringshard::model {

// Every query and key head is normed by itself after it has rotated.
ModelSpec read_hunyuan_v1_dense(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.norm = {.epsilon = 1e-5}, .padding_token = 0, .rope = {.knows_alpha = true}});
    read_attention_bias(config, spec);
    for (BlockSpec& block : spec.blocks) {
        block.attention.head_norm = HeadNormKind::each_head;
        block.attention.norms_rotated_heads = true;
        block.attention.query_norm = "self_attn.query_layernorm";
        block.attention.key_norm = "self_attn.key_layernorm";
    }
    return spec;
}

}  // namespace ringshard::model
