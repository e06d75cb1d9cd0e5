#include <algorithm>

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

static HeadGates read_gates(ConfigReader& config) {
    const nlohmann::json kind = config.part("gating");
    const bool is_of_heads = kind.is_null() || kind == true || kind == "per-head";
    if (!is_of_heads && kind != "per-element")
        config.complain(format_text("gating = {}: must be true, \"per-head\" or \"per-element\"",
                                    shown(kind.dump())));
    return is_of_heads ? HeadGates::softplus_of_heads : HeadGates::softplus;
}

// Layers may have different numbers of query heads.
static void read_query_heads(ConfigReader& config, ModelSpec& spec) {
    const char* const field = "num_attention_heads_per_layer";
    const nlohmann::json given = config.part(field);
    const int64_t key_heads = spec.heads().key_heads;
    const auto is_served = [&](const nlohmann::json& heads) {
        return heads.is_number_unsigned() && heads > 0 && heads <= most_blocks &&
               heads.get<int64_t>() % key_heads == 0;
    };
    if (given.is_null()) return;
    if (!given.is_array() || given.size() != spec.blocks.size() ||
        !std::ranges::all_of(given, is_served))
        return config.complain(format_text(
            "{} = {}: must be a list with a multiple of num_key_value_heads = {} for each of "
            "num_hidden_layers = {}",
            field, shown(given.dump()), key_heads, spec.blocks.size()));
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        spec.blocks[block].attention().heads.query_heads = given[block].get<int64_t>();
}

static ExpertsSpec read_laguna_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts =
        read_gated_experts(config, spec, {.count = 256, .per_token = 8, .shared = 512});
    leave_out_router_loss(spec);
    for (const char* const flag : {"moe_apply_router_weight_on_input", "output_router_logits"})
        refuse_flag(config, flag);
    if (config.has("moe_router_logit_softcapping") &&
        config.part("moe_router_logit_softcapping") != 0.0)
        config.complain("moe_router_logit_softcapping: is not served; it must be 0");
    experts.routing.is_sigmoid = true;
    experts.routing.scaling = config.number_above_0("moe_routed_scaling_factor", 1.0);
    experts.correction = "mlp.experts.e_score_correction_bias";
    experts.shared_gate.clear();
    return experts;
}

// Every head is normed by itself, and what it has seen is multiplied by the softplus of a gate;
// windows and positions by layer; experts beside an MLP, with routers of sigmoids and corrections.
static ModelSpec read_laguna(ConfigReader& config) {
    const Defaults defaults{.head_dim = 128,
                            .key_heads = 8,
                            .rope = {.theta = 500000.0, .may_be_partial = true},
                            .has_ropes_by_layer = true};
    ModelSpec spec = read_plain_model(config, defaults);
    read_layers(config, spec, defaults, {.rotated_part = 0.5, .window = 512});
    for (const char* const bias : {"attention_bias", "mlp_bias"}) refuse_flag(config, bias);
    const HeadGates gates = read_gates(config);
    for (BlockSpec& block : spec.blocks) {
        block.attention().gates = gates;
        block.attention().head_norm = HeadNormKind::each_head;
    }
    read_query_heads(config, spec);
    const ExpertsSpec experts = read_laguna_experts(config, spec);
    set_experts_behind_dense(
        spec, experts,
        config.has("mlp_layer_types") ? read_first_sparse(config, spec.blocks.size()) : 1);
    return spec;
}

Family laguna() {
    return {{"LagunaForCausalLM",
             "laguna",
             read_laguna,
             {.fields = {"gating", "moe_apply_router_weight_on_input", "moe_routed_scaling_factor",
                         "moe_router_logit_softcapping", "num_attention_heads_per_layer"}}}};
}

}  // namespace ringshard::model::architectures
