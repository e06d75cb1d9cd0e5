#include <algorithm>
#include <cmath>

#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Latents and an MLP, with a factor for the embedding, both branches and the logits.
static ModelSpec read_minicpm3(ConfigReader& config) {
    const int64_t width = config.whole_number("hidden_size", widest);
    const int64_t heads = config.whole_number("num_attention_heads", widest);
    const int64_t value_dim = std::max<int64_t>(1, width / heads);
    ModelSpec spec = read_latent_model(
        config, {.model = {.norm = {.epsilon = 1e-5}, .tied = true, .initializer_range = 0.1},
                 .latent = {.rank = 256, .query_rank = 768, .rotated = 32, .value_dim = value_dim},
                 .plain = 64});
    const auto factor = [&](const char* name, double usual, double where_null) {
        const bool is_null = config.content().contains(name) && !config.has(name);
        return is_null ? where_null : config.number_above_0(name, usual);
    };
    const double root = std::sqrt(static_cast<double>(spec.blocks.size()));
    const double of_width = static_cast<double>(width);
    for (BlockSpec& block : spec.blocks)
        block.residual_multiplier = factor("scale_depth", 1.4, root) / root;
    spec.embedding_multiplier = config.number_above_0("scale_emb", 12);
    spec.rounds_embedding_multiplier = true;
    spec.logits_multiplier = factor("dim_model_base", 256, of_width) / of_width;
    return spec;
}

Family minicpm3() {
    return {{"MiniCPM3ForCausalLM",
             "minicpm3",
             read_minicpm3,
             {.score_class = "MiniCPM3ForSequenceClassification",
              .fields = {"dim_model_base", "scale_depth", "scale_emb"}}}};
}

}  // namespace ringshard::model::architectures
