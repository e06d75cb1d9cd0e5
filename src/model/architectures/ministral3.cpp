#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries at far positions are scaled.
static ModelSpec read_ministral3(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.head_dim = 128,
                 .key_heads = 8,
                 .norm = {.epsilon = 1e-5},
                 .padding_token = 11,
                 .rope = {.other_keys = {"llama_4_scaling_beta", "max_position_embeddings",
                                         "original_max_position_embeddings"}}});
    set_window_of_all(spec, read_window(config, std::nullopt));
    read_query_scale(config, spec);
    return spec;
}

Family ministral3() {
    return {{"Ministral3ForCausalLM",
             "ministral3",
             read_ministral3,
             {.score_class = "Ministral3ForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures
