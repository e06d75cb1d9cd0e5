#include "../value_text.hpp"
#include "megatron_swift_keys.hpp"
#include "swift_data.hpp"
#include "swift_keys.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

void read_schedule(ForeignImport& import) {
    const std::string style = lower_case(import.text("lr_decay_style", "cosine"));
    const double lowest = import.number("min_lr", 0);
    if (import.has("lr_decay_style") && style != "cosine" && style != "linear" &&
        style != "constant")
        return import.refuse("lr_decay_style", "cosine, linear and constant are served");
    if (style == "cosine" && lowest > 0) {
        import.set("min_lr", "lr_scheduler_type", std::string("cosine_with_min_lr"));
        import.set("min_lr", "lr_scheduler_kwargs", ordered_json{{ "min_lr", lowest }});
        return;
    }
    if (lowest > 0) import.refuse("min_lr", "lr_decay_style cosine has a lowest rate");
    if (import.has("lr_decay_style"))
        import.set("lr_decay_style", "lr_scheduler_type",
                   style == "constant" ? std::string("constant_with_warmup") : style);
}

void read_megatron_swift_precision(ForeignImport& import) {
    if (!import.has("fp8_format")) return;
    const std::string recipe = import.text("fp8_recipe", "delayed");
    if (recipe == "blockwise" || recipe == "mxfp8")
        return import.refuse("fp8_recipe", "rowwise, tensorwise and delayed are served");
    import.set("fp8_format", "mixed_precision", std::string("fp8"));
    import.set("fp8_format", "fp8_format", import.at("fp8_format"));
    import.set(import.has("fp8_recipe") ? "fp8_recipe" : "fp8_format", "fp8_recipe", recipe);
}

void translate_megatron_swift(ForeignImport& import) {
    read_swift_tuner(import, "full");
    const std::string tuner =
        import.text(import.has("train_type") ? "train_type" : "tuner_type", "full");
    import.set_default("learning_rate", tuner == "full" ? "1e-5" : "1e-4");
    read_swift_template(import);
    read_swift_task(import);
    read_swift_data(import);
    read_schedule(import);
    read_megatron_swift_precision(import);
    const std::string recompute = import.text("recompute_granularity", "selective");
    if (import.has("recompute_granularity"))
        import.set("recompute_granularity", "gradient_checkpointing",
                   std::string(recompute == "none" ? "false" : "true"));
    read_swift_rest(import);
}

}  // namespace

const ForeignTrainer& megatron_swift() {
    static const ForeignTrainer trainer{"ms-swift's Megatron",
                                        {megatron_swift_keys(), swift_shared_keys()},
                                        megatron_swift_defaults(),
                                        translate_megatron_swift};
    return trainer;
}

}  // namespace ringshard::config
