#include <algorithm>
#include <utility>

#include "common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

// Returns the name by which a field is there: transformers reads it by a common one too.
const char* given_name(ConfigReader& config, const char* name, const char* common) {
    if (!config.has(common)) return name;
    if (!config.has(name)) return common;
    if (config.part(common) != config.part(name))
        config.complain(format_text("{} = {} and {} = {}: are one number; correct the wrong one",
                                    name, shown(config.part(name).dump()), common,
                                    shown(config.part(common).dump())));
    return name;
}

constexpr int64_t most_experts = 1 << 16;

int64_t read_number(ConfigReader& config, const char* name, int64_t most, int64_t usual) {
    return usual == 0 ? config.whole_number(name, most) : config.whole_number_or(name, most, usual);
}

// transformers writes the number under either name.
int64_t read_count(ConfigReader& config, const ExpertDefaults& defaults) {
    if (defaults.count_name != nullptr)
        return read_number(config, given_name(config, defaults.count_name, "num_local_experts"),
                           most_experts, defaults.count);
    const json here = config.part("num_experts");
    const json local = config.part("num_local_experts");
    if (!here.is_null() && !local.is_null() && here != local)
        config.complain(format_text(
            "num_experts = {} and num_local_experts = {}: are one number; correct the wrong one",
            shown(here.dump()), shown(local.dump())));
    return config.whole_number_or(here.is_null() ? "num_local_experts" : "num_experts",
                                  most_experts, defaults.count);
}

double read_aux_loss(ConfigReader& config, double usual) {
    if (!config.has("router_aux_loss_coef")) return usual;
    const json value = config.part("router_aux_loss_coef");
    if (value.is_number() && value.get<double>() >= 0) return value.get<double>();
    config.complain(
        format_text("router_aux_loss_coef = {}: must be a number from 0 on", shown(value.dump())));
    return 0;
}

// The groups of experts among which a token chooses.
void read_groups(ConfigReader& config, const GroupedDefaults& defaults, ExpertsSpec& experts) {
    const char* const count_name = defaults.count_name;
    const int64_t groups = config.whole_number_or(
        given_name(config, defaults.groups_name, "n_group"), widest, defaults.groups);
    const int64_t chosen = config.whole_number_or("topk_group", widest, defaults.chosen_groups);
    experts.routing.groups = groups;
    experts.routing.chosen_groups = chosen;
    if (experts.count % groups != 0 || experts.count / groups < 2)
        config.complain(format_text("{} = {}: must divide {} = {} into groups of at least 2",
                                    defaults.groups_name, groups, count_name, experts.count));
    else if (chosen > groups || experts.count / groups * chosen < experts.per_token)
        config.complain(format_text(
            "topk_group = {}: must be at most {} = {}, and so many groups must have "
            "{} = {} experts",
            chosen, defaults.groups_name, groups, defaults.per_token_name, experts.per_token));
}

}  // namespace

std::vector<bool> read_dense_blocks(ConfigReader& config, size_t num_blocks) {
    const auto every =
        static_cast<size_t>(config.whole_number_or("decoder_sparse_step", most_blocks, 1));
    std::vector<bool> dense(num_blocks);
    for (size_t block = 0; block < num_blocks; ++block) dense[block] = (block + 1) % every != 0;
    if (!config.has("mlp_only_layers")) return dense;
    const json layers = config.part("mlp_only_layers");
    const auto is_block = [&](const json& layer) {
        return layer.is_number_unsigned() && layer.get<size_t>() < num_blocks;
    };
    if (!layers.is_array() || !std::ranges::all_of(layers, is_block)) {
        config.complain(format_text("mlp_only_layers = {}: must be a list of numbers from 0 to {}",
                                    shown(layers.dump()), num_blocks - 1));
        return dense;
    }
    for (const json& layer : layers) dense[layer.get<size_t>()] = true;
    return dense;
}

ExpertsSpec read_experts(ConfigReader& config, ModelSpec& spec, const ExpertDefaults& defaults) {
    ExpertsSpec experts;
    experts.count = read_count(config, defaults);
    const char* const per_token =
        given_name(config, defaults.per_token_name, "num_experts_per_tok");
    experts.per_token = read_number(config, per_token, most_experts, defaults.per_token);
    if (experts.per_token > experts.count)
        config.complain(format_text("{} = {}: must be at most the number of experts, {}", per_token,
                                    experts.per_token, experts.count));
    experts.intermediate = config.whole_number(defaults.intermediate_name, widest);
    experts.activation = spec.blocks.front().mlp().activation;
    spec.has_router_aux_loss = defaults.aux_loss.has_value();
    if (defaults.aux_loss) spec.router_aux_loss_coef = read_aux_loss(config, *defaults.aux_loss);
    return experts;
}

void leave_out_router_loss(ModelSpec& spec) {
    spec.has_router_aux_loss = false;
    spec.router_loss_left_out = std::exchange(spec.router_aux_loss_coef, 0);
}

ExpertsSpec read_gated_experts(ConfigReader& config, ModelSpec& spec,
                               const GatedDefaults& defaults) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = defaults.count,
                                        .per_token = defaults.per_token,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = 0.001});
    experts.routing.normalises = true;
    experts.shared = MlpSpec{.intermediate = config.whole_number_or(
                                 "shared_expert_intermediate_size", widest, defaults.shared),
                             .activation = experts.activation,
                             .gate = "mlp.shared_expert.gate_proj",
                             .up = "mlp.shared_expert.up_proj",
                             .down = "mlp.shared_expert.down_proj"};
    experts.shared_gate = "mlp.shared_expert_gate";
    return experts;
}

ExpertsSpec read_grouped_experts(ConfigReader& config, ModelSpec& spec,
                                 const GroupedDefaults& defaults) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = defaults.count,
                                        .per_token = defaults.per_token,
                                        .intermediate_name = "moe_intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = defaults.count_name,
                                        .per_token_name = defaults.per_token_name});
    experts.routing.is_sigmoid = true;
    experts.routing.normalises = config.boolean(
        given_name(config, defaults.normalises_name, "norm_topk_prob"), defaults.normalises);
    experts.routing.added_to_sum = 1e-20;
    experts.routing.scaling = config.number_above_0("routed_scaling_factor", defaults.scaling);
    experts.routes_in_fp32 = true;
    experts.correction = "mlp.gate.e_score_correction_bias";
    read_groups(config, defaults, experts);
    const int64_t shared =
        read_number(config, given_name(config, defaults.shared_name, "n_shared_experts"),
                    most_blocks, defaults.shared);
    experts.shared = shared_experts(experts, shared);
    return experts;
}

MlpSpec shared_experts(const ExpertsSpec& experts, int64_t count) {
    return {.intermediate = experts.intermediate * count,
            .activation = experts.activation,
            .gate = "mlp.shared_experts.gate_proj",
            .up = "mlp.shared_experts.up_proj",
            .down = "mlp.shared_experts.down_proj"};
}

ExpertsSpec read_bare_experts(ConfigReader& config, ModelSpec& spec, const MlpSpec& mlp,
                              const std::string& module) {
    ExpertsSpec experts = read_grouped_experts(config, spec, {.count = 8, .per_token = 2});
    if (config.has("moe_latent_size"))
        config.complain("moe_latent_size: experts behind a latent are not served; must be null");
    experts.is_gated = false;
    experts.router = module + ".gate";
    experts.correction = module + ".gate.e_score_correction_bias";
    experts.experts = module + ".experts";
    experts.shared = mlp;
    experts.shared->intermediate =
        config.whole_number_or("moe_shared_expert_intermediate_size", widest, 7688);
    experts.shared->up = module + ".shared_experts.up_proj";
    experts.shared->down = module + ".shared_experts.down_proj";
    return experts;
}

int64_t read_first_dense(ConfigReader& config, int64_t usual, const char* name) {
    const bool is_none = config.has(name) && config.part(name) == 0;
    if (is_none || (usual == 0 && !config.has(name))) return 0;
    return config.whole_number_or(name, most_blocks, usual);
}

int64_t read_first_sparse(ConfigReader& config, size_t num_blocks, int64_t usual) {
    if (!config.has("mlp_layer_types")) return read_first_dense(config, usual);
    const nlohmann::json types = config.part("mlp_layer_types");
    std::vector<std::string> names;
    for (const nlohmann::json& type : types)
        names.push_back(type.is_string() ? type.get<std::string>() : type.dump());
    const auto first =
        std::ranges::find_if(names, [](const auto& name) { return name != "dense"; });
    const bool is_served =
        types.is_array() && names.size() == num_blocks &&
        std::all_of(first, names.end(), [](const auto& name) { return name == "sparse"; });
    if (!is_served)
        config.complain(format_text(
            "mlp_layer_types = {}: must name \"dense\" for the first layers and \"sparse\" for "
            "the others, {} in all",
            shown(types.dump()), num_blocks));
    return first - names.begin();
}

void set_experts_behind_dense(ModelSpec& spec, const ExpertsSpec& experts, int64_t first_dense) {
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        if (static_cast<int64_t>(block) >= first_dense)
            spec.blocks[block].feed_forward().part = experts;
}

}  // namespace ringshard::model
