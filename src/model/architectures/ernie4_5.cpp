#include <algorithm>

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Pairs of elements that rotate are neighbours; use_bias gives every projection a bias.
static ModelSpec read_common(ConfigReader& config, int64_t head_dim, int64_t key_heads) {
    ModelSpec spec =
        read_plain_model(config, {.head_dim = head_dim,
                                  .key_heads = key_heads,
                                  .norm = {.epsilon = 1e-5},
                                  .padding_token = 0,
                                  .tied = true,
                                  .rope = {.theta = 500000.0, .is_interleaved = true}});
    read_use_bias(config, spec, false);
    return spec;
}

static ExpertsSpec read_corrected_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 64,
                                        .per_token = 6,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = 0.001,
                                        .count_name = "moe_num_experts",
                                        .per_token_name = "moe_k"});
    experts.routing.normalises = true;
    experts.routing.least_sum = config.number_above_0("moe_norm_min", 1e-12);
    experts.routes_in_fp32 = true;
    experts.correction = "mlp.moe_statics.e_score_correction_bias";
    experts.correction_is_row = true;
    if (config.part("moe_num_shared_experts") == 0) return experts;
    const int64_t shared = config.whole_number_or("moe_num_shared_experts", most_blocks, 2);
    experts.shared = MlpSpec{.intermediate = experts.intermediate * shared,
                             .has_bias = spec.blocks.front().mlp().has_bias,
                             .activation = experts.activation,
                             .gate = "mlp.shared_experts.gate_proj",
                             .up = "mlp.shared_experts.up_proj",
                             .down = "mlp.shared_experts.down_proj"};
    return experts;
}

// The number of a block, or -1.
static int64_t read_block(ConfigReader& config, const char* name, int64_t usual) {
    const nlohmann::json given = config.part(name);
    if (given.is_null()) return usual;
    const int64_t block = given.is_number_integer() ? given.get<int64_t>() : -2;
    if (block >= -1 && block < most_blocks) return block;
    config.complain(
        format_text("{} = {}: must be the number of a block, or -1", name, shown(given.dump())));
    return usual;
}

static ModelSpec read_ernie4_5(ConfigReader& config) { return read_common(config, 128, 2); }

// Experts beside an MLP in some blocks or in all.
static ModelSpec read_ernie4_5_moe(ConfigReader& config) {
    ModelSpec spec = read_common(config, 0, 4);
    spec.has_head_bias = spec.blocks.front().mlp().has_bias;
    const ExpertsSpec experts = read_corrected_experts(config, spec);
    const int64_t count = std::ssize(spec.blocks);
    const int64_t first = read_block(config, "moe_layer_start_index", 1);
    const int64_t named = read_block(config, "moe_layer_end_index", -1);
    const int64_t last = named == -1 ? count - 1 : std::min(named, count - 1);
    const int64_t every = config.whole_number_or("moe_layer_interval", most_blocks, 1);
    for (int64_t block = std::max<int64_t>(first, 0); block <= last; ++block)
        if ((block + 1) % every == 0)
            spec.blocks[static_cast<size_t>(block)].feed_forward().part = experts;
    return spec;
}

Family ernie4_5() {
    return {
        {"Ernie4_5ForCausalLM",
         "ernie4_5",
         read_ernie4_5,
         {.fields = {"moe_k", "moe_layer_end_index", "moe_layer_interval", "moe_layer_start_index",
                     "moe_norm_min", "moe_num_experts", "moe_num_shared_experts"}}},
        {"Ernie4_5_MoeForCausalLM",
         "ernie4_5_moe",
         read_ernie4_5_moe,
         {.peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
