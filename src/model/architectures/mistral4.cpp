#include <cmath>

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

using nlohmann::json;

// What transformers' positions call the part of a head that rotates must be qk_rope_head_dim, which
// says so here.
static ConfigReader without_rotated_part(ConfigReader& config) {
    json content = config.content();
    json& positions = content["rope_parameters"];
    if (positions.is_object() && positions.contains("partial_rotary_factor")) {
        const auto plain =
            static_cast<double>(config.whole_number_or("qk_nope_head_dim", widest, 64));
        const auto rotated =
            static_cast<double>(config.whole_number_or("qk_rope_head_dim", widest, 64));
        const json part = positions["partial_rotary_factor"];
        if (!part.is_number() || std::floor((plain + rotated) * part.get<double>()) != rotated)
            config.complain(format_text(
                "rope_parameters: partial_rotary_factor = {}: must be the part of a head that "
                "qk_rope_head_dim rotates; leave it out",
                shown(part.dump())));
        positions.erase("partial_rotary_factor");
    }
    return {config.file(), std::move(content)};
}

// Routers of softmax, which choose among groups.
static ExpertsSpec read_mistral_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 128, .per_token = 4});
    experts.routing.is_sigmoid = false;
    experts.routes_in_fp32 = false;
    experts.correction.clear();
    experts.tensors = ExpertTensors::stacked;
    experts.up = "gate_up_proj";
    return experts;
}

// The text model of Mistral 3's class: latents, queries that are scaled at far positions, and
// experts.
static ModelSpec read_mistral4(ConfigReader& given) {
    ConfigReader config = without_rotated_part(given);
    const bool is_interleaved = config.boolean("rope_interleave", true);
    ModelSpec spec = read_latent_model(
        config,
        {.model = {.max_positions = 1048576,
                   .padding_token = 11,
                   .rope = {.is_interleaved = is_interleaved,
                            .other_keys = {"llama_4_scaling_beta", "max_position_embeddings"}}},
         .latent = {.rank = 256, .query_rank = 1024, .rotated = 64, .value_dim = 128},
         .plain = 64,
         .ignores_head_dim = true});
    read_query_scale(config, spec);
    const ExpertsSpec experts = read_mistral_experts(config, spec);
    set_experts_behind_dense(spec, experts, read_first_dense(config, 0));
    given.complain(config);
    return spec;
}

Family mistral4() {
    return {{nullptr, "mistral4", read_mistral4, {.fields = {"rope_interleave"}}}};
}

}  // namespace ringshard::model::architectures
