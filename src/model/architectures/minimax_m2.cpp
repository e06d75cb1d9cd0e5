#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Heads that rotate in part, and queries and keys normed over all of them; experts in all blocks,
// of routers of sigmoids with corrections. An old release names the elements of a head that rotate.
static ModelSpec read_minimax_m2(ConfigReader& config) {
    constexpr int64_t head_dim = 128;
    const int64_t width = config.whole_number_or("head_dim", widest, head_dim);
    const int64_t rotated = config.whole_number_or("rotary_dim", width, width);
    ModelSpec spec = read_plain_model(
        config,
        {.head_dim = head_dim,
         .key_heads = 8,
         .rope = {.theta = 5e6,
                  .may_be_partial = true,
                  .rotated_part = static_cast<double>(rotated) / static_cast<double>(width)}});
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 256,
                                        .per_token = 8,
                                        .intermediate_name = "intermediate_size",
                                        .aux_loss = 0.001});
    experts.routing = {.is_sigmoid = true, .normalises = true};
    experts.router = "block_sparse_moe.gate";
    experts.correction = "block_sparse_moe.e_score_correction_bias";
    experts.experts = "block_sparse_moe.experts";
    experts.gate = "w1";
    experts.up = "w3";
    experts.down = "w2";
    leave_out_router_loss(spec);
    refuse_flag(config, "output_router_logits");
    if (config.has("router_jitter_noise") && config.part("router_jitter_noise") != 0.0)
        config.complain("router_jitter_noise: is not served; it must be 0");
    for (BlockSpec& block : spec.blocks) {
        block.attention().head_norm = HeadNormKind::all_heads;
        block.feed_forward().part = experts;
    }
    return spec;
}

Family minimax_m2() {
    return {{"MiniMaxM2ForCausalLM",
             "minimax_m2",
             read_minimax_m2,
             {.fields = {"output_router_logits", "rotary_dim", "router_jitter_noise"},
              .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
