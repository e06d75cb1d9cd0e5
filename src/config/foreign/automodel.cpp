#include "../value_text.hpp"
#include "automodel_keys.hpp"
#include "automodel_parts.hpp"
#include "reasons.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

namespace {

void read_model(ForeignImport& import) {
    const ordered_json& recipe = import.at("recipe");
    const std::string name =
        last_word(recipe.is_object() ? import.text("recipe._target_") : import.text("recipe"));
    if (!name.empty() && name != "TrainFinetuneRecipeForNextTokenPrediction")
        import.refuse("recipe", reasons::fine_tuning_only);
    const std::string target = import.text("model._target_");
    if (target.find("ImageText") != std::string::npos ||
        target.find("Multimodal") != std::string::npos)
        import.refuse("model._target_", reasons::no_vision);
    else if (target.find("Classification") != std::string::npos)
        import.refuse("model._target_", "heads of classification are not served");
    if (target.ends_with("from_config") || import.has("model.config"))
        import.refuse("model._target_", "trainer init makes a model with new weights");
    else if (import.has("model.pretrained_model_name_or_path"))
        import.set("model.pretrained_model_name_or_path", "model_name_or_path",
                   import.at("model.pretrained_model_name_or_path"));
    if (import.has("rng.seed") && !import.has("seed"))
        import.set("rng.seed", "seed", import.at("rng.seed"));
    const std::string loss = last_word(import.text("loss_fn._target_", "MaskedCrossEntropy"));
    if (loss.find("CrossEntropy") == std::string::npos && loss.find("CE") == std::string::npos)
        import.refuse("loss_fn._target_", "the loss is cross-entropy");
}

// Turns a pattern of file names, "*_proj", into a regular expression.
std::string expression_of(const std::string& pattern) {
    std::string expression;
    for (const char c : pattern) {
        if (c == '*') expression += ".*";
        if (c == '?') expression += '.';
        if (c == '.') expression += "[.]";
        if (c != '*' && c != '?' && c != '.') expression += c;
    }
    return expression;
}

void set_patterns(ForeignImport& import, const std::string& key, const std::string& setting) {
    const ordered_json& value = import.at(key);
    std::vector<std::string> expressions;
    for (const ordered_json& one : value.is_array() ? value : ordered_json::array({value}))
        expressions.push_back(expression_of(setting_text(one)));
    import.set(key, setting, "(" + join(expressions, "|") + ")");
}

void read_adapter(ForeignImport& import) {
    const ordered_json& peft = import.at("peft");
    if (peft.is_null()) return;
    import.set("peft", "use_peft", std::string("true"));
    import.set_default("lora_r", "8");
    import.set_default("lora_alpha", "32");
    import.set_default("lora_dropout", "0");
    for (const auto& [key, value] : peft.items()) {
        const std::string path = "peft." + key;
        if (value.is_null()) continue;
        if (key == "dim")
            import.set(path, "lora_r", value);
        else if (key == "alpha")
            import.set(path, "lora_alpha", value);
        else if (key == "dropout")
            import.set(path, "lora_dropout", value);
        else if (key == "use_dora")
            import.set(path, "use_dora", value);
        else if (key == "_target_")
            import.idle(path, "adapters are LoRA");
        else if (key == "target_modules" || key == "match_all_linear" || key == "exclude_modules")
            continue;
        else if (key == "use_triton" || key == "lora_dtype" || key == "dropout_position" ||
                 key == "lora_A_init" || key == "use_memory_efficient_lora")
            import.idle(path, reasons::kernels);
        else if (!asks_for_nothing(value))
            import.refuse(path, "lora has a rank, alpha, dropout and target modules");
    }
    if (import.is_on("peft.match_all_linear") ||
        import.at("peft.target_modules") == ordered_json::array({"*"}))
        import.set(
            import.is_on("peft.match_all_linear") ? "peft.match_all_linear" : "peft.target_modules",
            "lora_target_modules", std::string("all-linear"));
    else if (import.has("peft.target_modules"))
        set_patterns(import, "peft.target_modules", "lora_target_modules");
    if (import.has("peft.exclude_modules"))
        set_patterns(import, "peft.exclude_modules", "exclude_modules");
}

void read_events(ForeignImport& import) {
    if (import.has("checkpoint.enabled") && !import.is_on("checkpoint.enabled"))
        import.set("checkpoint.enabled", "save_strategy", std::string("no"));
    else if (import.has("step_scheduler.ckpt_every_steps"))
        import.set("step_scheduler.ckpt_every_steps", "save_steps",
                   import.at("step_scheduler.ckpt_every_steps"));
}

void read_layout(ForeignImport& import) {
    if (import.text("distributed.strategy") == "ddp")
        import.set("distributed.strategy", "distributed_type", std::string("MULTI_GPU"));
    if (const double copies = import.number("distributed.dp_replicate_size", 0); copies > 0)
        import.set("distributed.dp_replicate_size", "dp_replicate_size", shortest(copies));
    if (!asks_for_nothing(import.at("distributed.activation_checkpointing")))
        import.set("distributed.activation_checkpointing", "gradient_checkpointing",
                   std::string("true"));
    const double packed = import.number("packed_sequence.packed_sequence_size", 0);
    if (packed > 0) {
        import.set("packed_sequence.packed_sequence_size", "packing", std::string("true"));
        import.set("packed_sequence.packed_sequence_size", "max_length", shortest(packed));
    }
    if (import.is_on("fp8.enabled") && import.has("fp8.recipe_name"))
        import.set("fp8.recipe_name", "fp8_recipe",
                   import.text("fp8.recipe_name") == "tensorwise" ? std::string("tensorwise")
                                                                  : std::string("rowwise"));
}

void translate_automodel(ForeignImport& import) {
    read_model(import);
    read_automodel_optimizer(import);
    read_adapter(import);
    read_events(import);
    read_layout(import);
    read_automodel_data(import);
}

}  // namespace

const ForeignTrainer& automodel() {
    static const ForeignTrainer trainer{
        "NeMo Automodel", {automodel_keys()}, automodel_defaults(), translate_automodel};
    return trainer;
}

}  // namespace ringshard::config
