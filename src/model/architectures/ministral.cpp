#include "../reading/windows.hpp"

namespace ringshard::model::architectures {

namespace {

// Mistral, of whose blocks some may see everything.
ModelSpec read_ministral(ConfigReader& config) {
    ModelSpec spec = read_plain_model(config, {.key_heads = 8});
    const std::optional<int64_t> window = read_window(config, usual_window);
    const auto has_window = [&](size_t) { return window.has_value(); };
    set_windows(config, spec, read_layer_types(config, spec.blocks.size(), has_window), window);
    return spec;
}

}  // namespace

Family ministral() {
    return {{.name = "MinistralForCausalLM", .model_type = "ministral", .read = read_ministral}};
}

}  // namespace ringshard::model::architectures
