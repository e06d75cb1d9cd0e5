#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// The plain model, with a factor for the embedding, the scores, both branches and the logits.
static ModelSpec read_granite(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {});
    read_biases(config, spec);
    const double scale = config.number_above_0("attention_multiplier", 1.0);
    for (BlockSpec& block : spec.blocks) block.attention().scores.scale = scale;
    spec.embedding_multiplier = config.number_above_0("embedding_multiplier", 1.0);
    spec.logits_multiplier = 1 / config.number_above_0("logits_scaling", 1.0);
    const double of_branches = config.number_above_0("residual_multiplier", 1.0);
    for (BlockSpec& block : spec.blocks) block.residual_multiplier = of_branches;
    return spec;
}

// The files hold the experts of a block as one tensor.
static ExpertsSpec read_granite_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(
        config, spec,
        {.count = 8, .per_token = 2, .intermediate_name = "intermediate_size", .aux_loss = 0.001});
    // The softmax of the chosen logits is that of all, to the sum 1.
    experts.routing.normalises = true;
    experts.tensors = ExpertTensors::stacked;
    experts.router = "block_sparse_moe.router.layer";
    experts.experts = "block_sparse_moe";
    experts.up = "input_linear.weight";
    experts.down = "output_linear.weight";
    return experts;
}

static MlpSpec read_shared_mlp(ConfigReader& config, const MlpSpec& plain) {
    MlpSpec mlp = plain;
    mlp.intermediate = config.whole_number_or("shared_intermediate_size", widest, 1024);
    mlp.is_fused = true;
    mlp.gate_up = "shared_mlp.input_linear";
    mlp.down = "shared_mlp.output_linear";
    return mlp;
}

// Granite with experts in place of the MLP.
static ModelSpec read_granitemoe(ConfigReader& config) {
    ModelSpec spec = read_granite(config);
    const ExpertsSpec experts = read_granite_experts(config, spec);
    for (BlockSpec& block : spec.blocks) block.feed_forward().part = experts;
    return spec;
}

// With an MLP beside the experts, unless its size is 0.
static ModelSpec read_granitemoeshared(ConfigReader& config) {
    ModelSpec spec = read_granite(config);
    refuse_flag(config, "mlp_bias");
    ExpertsSpec experts = read_granite_experts(config, spec);
    if (config.has("shared_intermediate_size") && config.part("shared_intermediate_size") != 0)
        experts.shared = read_shared_mlp(config, spec.blocks.front().mlp());
    for (BlockSpec& block : spec.blocks) block.feed_forward().part = experts;
    return spec;
}

// Granite 4: Mamba layers beside some that attend, whose heads do not rotate by default; and an MLP
// of its own name, with experts beside it or without.
static ModelSpec read_granitemoehybrid(ConfigReader& config) {
    ModelSpec spec = read_granite(config);
    refuse_flag(config, "mlp_bias");
    const MambaSpec mamba = read_mamba(config, spec);
    std::vector<bool> has_state(spec.blocks.size(), true);
    for (const char* const field : {"layer_types", "layers_block_type"})
        if (config.has(field)) has_state = read_state_layers(config, field, spec.blocks.size());
    const bool rotates = config.part("position_embedding_type") == "rope";
    const MlpSpec mlp = read_shared_mlp(config, spec.blocks.front().mlp());
    FeedForwardSpec feed_forward = mlp;
    if (config.part("num_local_experts") != 0) {
        ExpertsSpec experts = read_granite_experts(config, spec);
        experts.shared = mlp;
        feed_forward = std::move(experts);
    }
    for (size_t i = 0; i < spec.blocks.size(); ++i) {
        BlockSpec& block = spec.blocks[i];
        block.feed_forward().part = feed_forward;
        if (!rotates) block.attention().rope.reset();
        if (has_state[i]) block.mixer().part = mamba;
    }
    return spec;
}

Family granite() {
    return {
        {"GraniteForCausalLM",
         "granite",
         read_granite,
         {.fields = {"attention_multiplier", "embedding_multiplier", "logits_scaling",
                     "residual_multiplier"}}},
        {"GraniteMoeForCausalLM",
         "granitemoe",
         read_granitemoe,
         {.fields = {"layers_block_type", "position_embedding_type", "shared_intermediate_size"}}},
        {"GraniteMoeSharedForCausalLM", "granitemoeshared", read_granitemoeshared},
        {"GraniteMoeHybridForCausalLM", "granitemoehybrid", read_granitemoehybrid}};
}

}  // namespace ringshard::model::architectures
