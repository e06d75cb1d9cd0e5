#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Llama with windows in three blocks of four; the positions are lengthened by default.
static ModelSpec read_cwm(ConfigReader& config) {
    const nlohmann::json usual{
        {"rope_type", "llama3"},   {"rope_theta", 1e6},
        {"factor", 16.0},          {"low_freq_factor", 1.0},
        {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
    ModelSpec spec = read_plain_model(config, {.head_dim = 128,
                                               .key_heads = 8,
                                               .norm = {.epsilon = 1e-5},
                                               .rope = {.theta = 1e6, .usual = usual}});
    read_mlp_bias(config, spec, false);
    const auto has_window = [](size_t block) { return block % 4 != 0; };
    set_windows(config, spec, read_layer_types(config, spec.blocks.size(), has_window),
                read_window(config, 8192));
    return spec;
}

Family cwm() { return {{"CwmForCausalLM", "cwm", read_cwm}}; }

}  // namespace ringshard::model::architectures
