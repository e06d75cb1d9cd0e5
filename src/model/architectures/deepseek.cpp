#include "latents.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model {

namespace {

constexpr LatentSpec usual_latent{.rank = 512, .query_rank = 1536, .rotated = 64, .value_dim = 128};

// Routers of softmax, which choose among groups by the best expert of each.
ExpertsSpec read_greedy_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 64, .shared = 2});
    const std::string method = config.word("topk_method", "greedy");
    if (method != "greedy" && method != "group_limited_greedy")
        config.complain(format_text(
            "topk_method = {}: must be \"greedy\" or \"group_limited_greedy\"", shown(method)));
    if (method == "greedy") experts.routing.groups = experts.routing.chosen_groups = 1;
    experts.routing.best_of_group = 1;
    experts.routing.is_sigmoid = experts.routing.normalises = false;
    experts.correction.clear();
    return experts;
}

ModelSpec read_corrected(ConfigReader& config, const LatentDefaults& defaults) {
    ModelSpec spec = read_latent_model(config, defaults);
    spec.ignores_further_blocks = true;
    return spec;
}

}  // namespace

ModelSpec read_deepseek_v2(ConfigReader& config) {
    ModelSpec spec = read_latent_model(
        config, {.model = {.rope = {.is_interleaved = true}}, .latent = usual_latent});
    const int64_t dense = read_first_dense(config, 0);
    if (dense < std::ssize(spec.blocks))
        set_experts_behind_dense(spec, read_greedy_experts(config, spec), dense);
    return spec;
}

// Also Moonlight.
ModelSpec read_deepseek_v3(ConfigReader& config) {
    const bool is_interleaved = config.boolean("rope_interleave", true);
    ModelSpec spec = read_corrected(
        config, {.model = {.rope = {.is_interleaved = is_interleaved}}, .latent = usual_latent});
    const ExpertsSpec experts = read_grouped_experts(
        config, spec,
        {.count = 256, .per_token = 8, .scaling = 2.5, .groups = 8, .chosen_groups = 4});
    set_experts_behind_dense(spec, experts, read_first_dense(config, 3));
    return spec;
}

// GLM-4.7-Flash.
ModelSpec read_glm4_moe_lite(ConfigReader& config) {
    const bool is_interleaved = config.boolean("rope_interleave", true);
    ModelSpec spec = read_corrected(
        config, {.model = {.norm = {.epsilon = 1e-5}, .rope = {.is_interleaved = is_interleaved}},
                 .latent = {.rank = 512, .query_rank = 768, .rotated = 64, .value_dim = 256},
                 .plain = 192});
    const ExpertsSpec experts =
        read_grouped_experts(config, spec, {.count = 64, .per_token = 4, .scaling = 1.8});
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size()));
    return spec;
}

}  // namespace ringshard::model
