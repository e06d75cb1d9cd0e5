#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Also Moonlight.
static ModelSpec read_deepseek_v3(ConfigReader& config) {
    const bool is_interleaved = config.boolean("rope_interleave", true);
    ModelSpec spec = read_latent_model(
        config,
        {.model = {.rope = {.is_interleaved = is_interleaved}}, .ignores_further_blocks = true});
    const ExpertsSpec experts = read_grouped_experts(
        config, spec,
        {.count = 256, .per_token = 8, .scaling = 2.5, .groups = 8, .chosen_groups = 4});
    set_experts_behind_dense(spec, experts, read_first_dense(config, 3));
    return spec;
}

Family deepseek_v3() {
    return {{"DeepseekV3ForCausalLM",
             "deepseek_v3",
             read_deepseek_v3,
             {.score_class = "DeepseekV3ForSequenceClassification",
              .fields = {"rope_interleave"},
              .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
