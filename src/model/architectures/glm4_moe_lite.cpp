#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// GLM-4.7-Flash.
static ModelSpec read_glm4_moe_lite(ConfigReader& config) {
    const bool is_interleaved = config.boolean("rope_interleave", true);
    ModelSpec spec = read_latent_model(
        config, {.model = {.norm = {.epsilon = 1e-5}, .rope = {.is_interleaved = is_interleaved}},
                 .latent = {.rank = 512, .query_rank = 768, .rotated = 64, .value_dim = 256},
                 .plain = 192,
                 .ignores_further_blocks = true});
    const ExpertsSpec experts =
        read_grouped_experts(config, spec, {.count = 64, .per_token = 4, .scaling = 1.8});
    refuse_unread(config, "first_k_dense_replace", 1, "mlp_layer_types");
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size()));
    return spec;
}

Family glm4_moe_lite() {
    return {{"Glm4MoeLiteForCausalLM",
             "glm4_moe_lite",
             read_glm4_moe_lite,
             {.fields = {"rope_interleave"}, .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
