#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Blocks of one layer each, of four kinds; attention has no positions.
static ModelSpec read_nemotron_h(ConfigReader& config) {
    const std::string letters = read_layer_letters(config);
    ModelSpec spec = read_plain_model(config, {.num_blocks = std::ssize(letters),
                                               .head_dim = 128,
                                               .key_heads = 8,
                                               .norm = {.epsilon = 1e-5},
                                               .norm_name = "layer_norm_epsilon",
                                               .learns_padding = true,
                                               .activation = "relu2",
                                               .activation_name = "mlp_hidden_act",
                                               .has_ropes_by_layer = true});
    read_mlp_bias(config, spec, false);
    for (const char* const name : {"attention_bias", "mamba_proj_bias", "tie_word_embeddings"})
        refuse_flag(config, name);
    if (config.has("sliding_window")) config.complain("sliding_window: must be null");
    spec.names = {"backbone.embeddings", "backbone.layers", "backbone.norm_f", "lm_head"};
    spec.ignores_further_blocks = true;
    const BlockSpec& plain = spec.blocks.front();
    AttentionSpec attention = plain.attention();
    attention.module = "mixer";
    attention.out = "mixer.o_proj";
    attention.rope.reset();
    MlpSpec mlp = plain.mlp();
    mlp.is_gated = false;
    mlp.up = "mixer.up_proj";
    mlp.down = "mixer.down_proj";
    MambaSpec mamba = read_mamba_by_head(config);
    mamba.module = "mixer";
    const bool has_experts = letters.find('E') != std::string::npos;
    const ExpertsSpec experts =
        has_experts ? read_bare_experts(config, spec, mlp, "mixer") : ExpertsSpec();
    const LayerNorms norms{.before = "norm", .behind = {}};
    for (size_t i = 0; i < letters.size(); ++i) {
        BlockSpec& block = spec.blocks[i];
        block.mixers.clear();
        block.last.reset();
        if (letters[i] == 'M') block.mixers = {{.part = mamba, .norms = norms}};
        if (letters[i] == '*') block.mixers = {{.part = attention, .norms = norms}};
        if (letters[i] == '-') block.last = {.part = mlp, .norms = norms};
        if (letters[i] == 'E') block.last = {.part = experts, .norms = norms};
    }
    return spec;
}

Family nemotron_h() {
    return {{"NemotronHForCausalLM",
             "nemotron_h",
             read_nemotron_h,
             {.fields = {"layer_norm_epsilon", "mlp_hidden_act", "moe_latent_size",
                         "moe_shared_expert_intermediate_size"},
              .peft = {.targets = {"q_proj", "k_proj", "v_proj", "o_proj"}}}}};
}

}  // namespace ringshard::model::architectures
