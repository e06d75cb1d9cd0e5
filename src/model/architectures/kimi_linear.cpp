#include <algorithm>

#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

using nlohmann::json;

// Releases have the sizes of delta nets, and the numbers of their layers from 1 on, in
// linear_attn_config; transformers writes them as fields of their own.
static const char* const release = "linear_attn_config";

static int64_t read_size(ConfigReader& config, const json& sizes, const char* name,
                         const char* in_release, int64_t usual) {
    if (!sizes.contains(in_release)) return config.whole_number_or(name, widest, usual);
    ConfigReader inner(config.file(), sizes, format_text("{}: ", release));
    const int64_t size = inner.whole_number(in_release, widest);
    config.complain(inner);
    return size;
}

static DeltaByRowSpec read_delta(ConfigReader& config, const json& sizes) {
    const int64_t heads = read_size(config, sizes, "linear_num_heads", "num_heads", 32);
    const int64_t dim = read_size(config, sizes, "linear_head_dim", "head_dim", 128);
    const int64_t taps =
        read_size(config, sizes, "linear_conv_kernel_dim", "short_conv_kernel_size", 4);
    check_taps(config, "linear_conv_kernel_dim", taps);
    return {.sizes = square_states(config, "linear_head_dim", heads, dim), .rank = dim};
}

// Returns which blocks have a state.
static std::vector<bool> read_layers(ConfigReader& config, const json& sizes, size_t num_blocks) {
    if (config.has("layer_types")) return read_state_layers(config, "layer_types", num_blocks);
    std::vector<bool> has_state(num_blocks, true);
    if (!sizes.contains("full_attn_layers") || !sizes.contains("kda_layers")) {
        for (size_t block = 4; block < num_blocks; block += 4) has_state[block] = false;
        return has_state;
    }
    std::vector<size_t> times_listed(num_blocks + 1);  // behind the last block those of no block
    const auto mark = [&](const char* list, bool is_state) {
        for (const json& layer : sizes[list]) {
            const size_t block = layer.is_number_unsigned() ? layer.get<size_t>() - 1 : num_blocks;
            ++times_listed[std::min(block, num_blocks)];
            if (block < num_blocks) has_state[block] = is_state;
        }
    };
    mark("full_attn_layers", false);
    mark("kda_layers", true);
    if (times_listed.back() > 0 ||
        std::ranges::count(times_listed, 1U) != static_cast<int64_t>(num_blocks))
        config.complain(format_text(
            "{}: full_attn_layers = {}, kda_layers = {}: must name each layer from 1 to "
            "num_hidden_layers = {} once",
            release, shown(sizes["full_attn_layers"].dump()), shown(sizes["kda_layers"].dump()),
            num_blocks));
    return has_state;
}

static void refuse_other(ConfigReader& config, const char* name, const json& served) {
    if (config.has(name) && config.part(name) != served)
        config.complain(format_text("{} = {}: is not served; it must be {}", name,
                                    shown(config.part(name).dump()), served.dump()));
}

// Delta nets with decays by row beside attention to latents without positions, and experts behind
// both in all blocks but the first ones.
static ModelSpec read_kimi_linear(ConfigReader& config) {
    ModelSpec spec = read_latent_model(
        config, {.model = {.norm = {.epsilon = 1e-5},
                           .names = {.positions = "model_max_length"},
                           .max_positions = 1048576,
                           .padding_token = 163839},
                 .latent = {.rank = 512, .query_rank = 0, .rotated = 64, .value_dim = 128},
                 .rotates = false,
                 .ignores_head_dim = true});
    refuse_other(config, "mla_use_nope", true);
    refuse_other(config, "moe_router_activation_func", "sigmoid");
    ExpertsSpec experts = read_grouped_experts(config, spec,
                                               {.count = 256,
                                                .per_token = 8,
                                                .scaling = 2.446,
                                                .count_name = "num_experts",
                                                .shared_name = "num_shared_experts",
                                                .per_token_name = "num_experts_per_token",
                                                .normalises_name = "moe_renormalize",
                                                .groups_name = "num_expert_group"});
    const std::string module = "block_sparse_moe.";
    experts.router = module + "gate";
    experts.correction = module + "gate.e_score_correction_bias";
    experts.experts = module + "experts";
    experts.gate = "w1";
    experts.up = "w3";
    experts.down = "w2";
    experts.shared->gate = module + "shared_experts.gate_proj";
    experts.shared->up = module + "shared_experts.up_proj";
    experts.shared->down = module + "shared_experts.down_proj";
    const json sizes = config.has(release) ? config.part(release) : json::object();
    if (!sizes.is_object())
        config.complain(format_text("{} = {}: must be an object", release, shown(sizes.dump())));
    const DeltaByRowSpec delta = read_delta(config, sizes);
    const std::vector<bool> has_state = read_layers(config, sizes, spec.blocks.size());
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        if (has_state[block]) spec.blocks[block].mixer().part = delta;
    // transformers saves the first MLPs under the module of experts, and reads either.
    spec.other_names = {{"mlp.", module}};
    set_experts_behind_dense(spec, experts, read_first_sparse(config, spec.blocks.size()));
    return spec;
}

Family kimi_linear() {
    return {{"KimiLinearForCausalLM",
             "kimi_linear",
             read_kimi_linear,
             {.fields = {release, "linear_conv_kernel_dim", "linear_head_dim", "linear_num_heads",
                         "mla_use_nope", "model_max_length", "moe_renormalize",
                         "moe_router_activation_func", "num_expert_group", "num_experts_per_token",
                         "num_shared_experts", "use_grouped_topk"}}}};
}

}  // namespace ringshard::model::architectures
