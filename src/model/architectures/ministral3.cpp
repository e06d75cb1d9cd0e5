#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Queries at far positions are scaled, by two fields of rope_parameters.
static ModelSpec read_ministral3(ConfigReader& config) {
    ModelSpec spec = read_plain_model(
        config, {.head_dim = 128,
                 .key_heads = 8,
                 .norm = {.epsilon = 1e-5},
                 .padding_token = 11,
                 .rope = {.other_keys = {"llama_4_scaling_beta", "max_position_embeddings",
                                         "original_max_position_embeddings"}}});
    set_window_of_all(spec, read_window(config, std::nullopt));
    ConfigReader rope(config.file(), config.part("rope_parameters"), "rope_parameters: ");
    if (!rope.content().is_object()) {
        config.complain(
            "rope_parameters: must be an object with llama_4_scaling_beta and "
            "original_max_position_embeddings");
        return spec;
    }
    spec.query_scale = {rope.number_above_0("llama_4_scaling_beta"),
                        rope.number_above_0("original_max_position_embeddings")};
    config.complain(rope);
    if (config.has("original_max_position_embeddings"))
        config.complain(
            "original_max_position_embeddings: is read of rope_parameters alone; transformers "
            "puts this one in its place: leave it out here");
    return spec;
}

Family ministral3() {
    return {{"Ministral3ForCausalLM",
             "ministral3",
             read_ministral3,
             {.score_class = "Ministral3ForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures
