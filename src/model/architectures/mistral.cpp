#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// The plain model, whose blocks all look through one window unless sliding_window is null.
static ModelSpec read_mistral(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 8});
    set_window_of_all(spec, read_window(config, usual_window));
    if (config.has("layer_types"))
        config.complain(
            "layer_types: a model of this type has one window for all layers; with "
            "layer_types transformers makes a Ministral of it: name MinistralForCausalLM and "
            "model_type ministral, or leave layer_types out");
    return spec;
}

static ModelSpec read_mistral3(ConfigReader& config) {
    return read_wrapped_model(config, {.text_type = "mistral", .tied = true});
}

Family mistral() {
    return {{"MistralForCausalLM",
             "mistral",
             read_mistral,
             {.score_class = "MistralForSequenceClassification",
              .peft = {.targets = {"q_proj", "v_proj"}}}},
            {"Mistral3ForConditionalGeneration", "mistral3", read_mistral3}};
}

}  // namespace ringshard::model::architectures
