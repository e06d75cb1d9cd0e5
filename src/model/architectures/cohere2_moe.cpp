#include "../reading/common.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard::model::architectures {

// Returns one of two words, of which the first is the default.
static std::string read_choice(ConfigReader& config, const char* name, const char* usual,
                               const char* other) {
    std::string choice = config.word(name, usual);
    if (choice != usual && choice != other)
        config.complain(
            format_text("{} = {}: must be \"{}\" or \"{}\"", name, shown(choice), usual, other));
    return choice;
}

// A token takes the softmax of the logits that it chose, or their sigmoids.
static ExpertsSpec read_cohere_experts(ConfigReader& config, ModelSpec& spec) {
    ExpertsSpec experts = read_experts(config, spec,
                                       {.count = 8,
                                        .per_token = 2,
                                        .intermediate_name = "intermediate_size",
                                        .aux_loss = std::nullopt,
                                        .count_name = "num_experts"});
    experts.routing.is_sigmoid =
        read_choice(config, "expert_selection_fn", "softmax", "sigmoid") == "sigmoid";
    const bool norms_sigmoids = config.boolean("norm_topk_prob", true);
    experts.routing.normalises = !experts.routing.is_sigmoid || norms_sigmoids;
    if (!config.has("num_shared_experts") || config.part("num_shared_experts") == 0) return experts;
    experts.shared =
        shared_experts(experts, config.whole_number("num_shared_experts", most_blocks));
    return experts;
}

// Attention beside experts, or beside an MLP in the first blocks. Blocks with a window rotate, and
// so may those with an MLP.
static ModelSpec read_cohere2_moe(ConfigReader& config) {
    const bool is_centred = !config.has("rms_norm_eps");
    ModelSpec spec =
        read_plain_model(config, {.head_dim = 128,
                                  .norm = {.epsilon = 1e-5, .is_centred = is_centred},
                                  .norm_name = is_centred ? "layer_norm_eps" : "rms_norm_eps",
                                  .padding_token = 0,
                                  .tied = true,
                                  .rope = {.is_interleaved = true}});
    read_attention_bias(config, spec);
    if (config.has("rope_scaling"))
        config.complain("rope_scaling: transformers does not read it here; give rope_parameters");
    spec.logits_multiplier = config.number_above_0("logit_scale", 0.0625);
    const auto first = static_cast<size_t>(read_first_dense(config, 0));
    const auto every = [&](const char* name, int64_t usual) {
        return static_cast<size_t>(config.whole_number_or(name, most_blocks, usual));
    };
    const size_t of_dense = every("prefix_dense_sliding_window_pattern", 1);
    const size_t of_sparse = every("sliding_window_pattern", 4);
    const std::vector<bool> windows =
        read_layer_types(config, spec.blocks.size(), [&](size_t block) {
            return block < first ? (block + 1) % of_dense != 0
                                 : (block - first + 1) % of_sparse != 0;
        });
    set_windows(config, spec, windows, read_window(config, usual_window));
    const ExpertsSpec experts = read_cohere_experts(config, spec);
    const bool is_average =
        read_choice(config, "shared_expert_combination_strategy", "average", "sum") == "average";
    const int64_t dense_width =
        config.whole_number_or("prefix_dense_intermediate_size", widest, experts.intermediate);
    const size_t num_dense =
        config.has("mlp_layer_types")
            ? static_cast<size_t>(read_first_sparse(config, spec.blocks.size()))
            : first;
    for (size_t number = 0; number < spec.blocks.size(); ++number) {
        BlockSpec& block = spec.blocks[number];
        block.feed_forward().is_parallel = true;
        block.feed_forward().norms = {};
        block.mlp().intermediate = dense_width;
        const bool is_dense = number < num_dense;
        if (!windows[number] && !(is_dense && of_dense == 1)) block.attention().rope.reset();
        if (is_dense) continue;
        block.feed_forward().part = experts;
        if (experts.shared && is_average) block.feed_forward().factor = 0.5;
    }
    return spec;
}

Family cohere2_moe() {
    return {
        {"Cohere2MoeForCausalLM",
         "cohere2_moe",
         read_cohere2_moe,
         {.fields = {"expert_selection_fn", "prefix_dense_intermediate_size",
                     "prefix_dense_sliding_window_pattern", "shared_expert_combination_strategy"},
          .peft = {.converts_experts = true}}}};
}

}  // namespace ringshard::model::architectures
