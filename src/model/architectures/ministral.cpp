#include "../reading/common.hpp"

namespace ringshard::model::architectures {

// Mistral, of whose blocks some may see everything.
static ModelSpec read_ministral(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 8});
    const std::optional<int64_t> window = read_window(config, usual_window);
    const auto has_window = [&](size_t) { return window.has_value(); };
    set_windows(config, spec, read_layer_types(config, spec.blocks.size(), has_window), window);
    return spec;
}

Family ministral() {
    return {{"MinistralForCausalLM",
             "ministral",
             read_ministral,
             {.score_class = "MinistralForSequenceClassification"}}};
}

}  // namespace ringshard::model::architectures
