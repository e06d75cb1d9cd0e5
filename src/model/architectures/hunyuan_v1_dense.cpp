#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Every query and key head is normed by itself after it has rotated.
static ModelSpec read_hunyuan_v1_dense(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.norm = {.epsilon = 1e-5}, .padding_token = 0, .rope = {.knows_alpha = true}});
    read_attention_bias(config, spec);
    for (BlockSpec& block : spec.blocks) {
        block.attention().head_norm = HeadNormKind::each_head;
        block.attention().norms_rotated_heads = true;
        block.attention().query_norm = "self_attn.query_layernorm";
        block.attention().key_norm = "self_attn.key_layernorm";
    }
    return spec;
}

// With experts beside an MLP in all blocks.
static ModelSpec read_hunyuan_v1_moe(ConfigReader& config) {
    ModelSpec spec = read_hunyuan_v1_dense(config);
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 1,
                                        .per_token = 1,
                                        .intermediate_name = "intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts",
                                        .per_token_name = "moe_topk"});
    experts.routing.normalises = true;
    experts.router = "mlp.gate.wg";
    experts.router_is_layer = true;
    experts.shared = MlpSpec{.intermediate = experts.intermediate,
                             .activation = experts.activation,
                             .gate = "mlp.shared_mlp.gate_proj",
                             .up = "mlp.shared_mlp.up_proj",
                             .down = "mlp.shared_mlp.down_proj"};
    for (BlockSpec& block : spec.blocks) block.feed_forward().part = experts;
    return spec;
}

Family hunyuan_v1_dense() {
    return {{"HunYuanDenseV1ForCausalLM",
             "hunyuan_v1_dense",
             read_hunyuan_v1_dense,
             {.score_class = "HunYuanDenseV1ForSequenceClassification", .fields = {"moe_topk"}}},
            {"HunYuanMoEV1ForCausalLM",
             "hunyuan_v1_moe",
             read_hunyuan_v1_moe,
             {.score_class = "HunYuanMoEV1ForSequenceClassification",
              .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
