#include <algorithm>

#include "../value_text.hpp"
#include "axolotl_parts.hpp"
#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Tokens that the vocabulary may lack.
ordered_json axolotl_tokens(const ForeignImport& import) {
    ordered_json added = ordered_json::array();
    for (const char* key : {"tokens", "special_tokens.additional_special_tokens"})
        if (const ordered_json& tokens = import.at(key); tokens.is_array())
            added.insert(added.end(), tokens.begin(), tokens.end());
    return added;
}

void read_axolotl_base(ForeignImport& import) {
    const std::string base = import.text("base_model");
    for (const char* key : {"base_model_config", "tokenizer_config"})
        if (import.has(key) && import.text(key) != base)
            import.refuse(key, format_text("the files beside the weights in {} are read; "
                                           "chat_template_path takes another model's tokens",
                                           base));
    const std::string type = import.text("model_type", "AutoModelForCausalLM");
    if (type.find("Classification") != std::string::npos && !learns_rewards(import))
        import.refuse("model_type",
                      "a head of scores is that of reward_model; labels are learned by `trainer "
                      "classify`");
    for (const char* block :
         {"model_config", "overrides_of_model_config", "overrides_of_model_kwargs"})
        if (import.at(block).is_object())
            for (const auto& [field, value] : import.at(block).items())
                import.set_model_field(block, field, value);
    if (const std::string quantised = import.text("model_quantization_config");
        !quantised.empty() && quantised != "Mxfp4Config")
        import.refuse("model_quantization_config",
                      "bases in MXFP4 are read; adapter qlora makes four bits of others");
    if (!asks_for_nothing(import.at("unfrozen_parameters"))) {
        std::vector<std::string> names;
        for (const ordered_json& name : import.at("unfrozen_parameters"))
            names.push_back(format_text("^(?:{})", setting_text(name)));
        const bool has_rows = std::ranges::any_of(names, [](const std::string& name) {
            return name.ends_with("])") && name.find(':', name.rfind('[')) != std::string::npos;
        });
        if (has_rows)
            import.refuse("unfrozen_parameters",
                          "a tensor is trained whole, and not rows [a:b] of it; beside an adapter "
                          "trainable_token_indices trains rows");
        else
            import.set("unfrozen_parameters", "train_only", join(names, "|"));
    }
    if (const ordered_json added = axolotl_tokens(import); !added.empty())
        import.set(
            import.at("tokens").is_array() ? "tokens" : "special_tokens.additional_special_tokens",
            "added_tokens", added);
    if (const ordered_json& eos = import.at("tokens.eos_token"); eos.is_string())
        import.set("tokens", "eos_token", eos);
}

void read_axolotl_template(ForeignImport& import) {
    if (import.has("chat_template_jinja")) {
        const std::string jinja = import.text("chat_template_jinja");
        const bool is_text = jinja.find('{') != std::string::npos;
        import.set("chat_template_jinja", is_text ? "chat_template" : "chat_template_path", jinja);
        return;
    }
    const std::string name = import.text("chat_template");
    if (name.empty() || name == "tokenizer_default") return;
    if (name.find('{') != std::string::npos)
        import.set("chat_template", "chat_template", name);
    else if (name == "chatml")
        import.set("chat_template", "chat_template", std::string(chatml_template()));
    else if (!name.starts_with("tokenizer_default_fallback"))
        import.note("chat_template",
                    "the tokenizer's own chat template is used; chat_template_jinja with the text "
                    "of a template takes another");
}

// Reads how the base is rounded to four bits; `is_held`: it is.
void read_four_bits(ForeignImport& import, bool is_held) {
    if (is_held) import.set_default("use_bnb_nested_quant", "true");
    import.set_of_four_bits(is_held, "bnb_config_kwargs.bnb_4bit_use_double_quant",
                            "use_bnb_nested_quant");
    import.set_of_four_bits(is_held, "bnb_config_kwargs.bnb_4bit_quant_type",
                            "bnb_4bit_quant_type");
}

void read_axolotl_adapter(ForeignImport& import) {
    const std::string adapter = import.text("adapter");
    if (adapter.empty() && !import.has("lora_model_dir")) {
        for (const char* key :
             {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_target_linear",
              "lora_target_parameters", "lora_modules_to_save"})
            if (import.has(key)) import.idle(key, "without adapter the whole model is trained");
        read_four_bits(import, false);
        if (import.is_on("load_in_4bit"))
            import.refuse("load_in_4bit", "a base in four bits has adapters; give adapter qlora");
        if (import.is_on("load_in_8bit"))
            import.refuse("load_in_8bit", "a base in eight bits has adapters; give adapter lora");
        return;
    }
    if (adapter != "lora" && adapter != "qlora")
        return import.refuse("adapter", "adapters are lora and qlora");
    import.set("adapter", "use_peft", std::string("true"));
    const bool is_quantised = adapter == "qlora" || import.is_on("load_in_4bit");
    read_four_bits(import, is_quantised);
    if (is_quantised)
        import.set(adapter == "qlora" ? "adapter" : "load_in_4bit", "load_in_4bit",
                   std::string("true"));
    import.set_default("lora_dropout", "0");
    for (const char* key :
         {"lora_r", "lora_alpha", "lora_dropout", "lora_target_parameters", "lora_modules_to_save"})
        if (import.has(key)) import.set(key, key, import.at(key));
    if (import.is_on("lora_target_linear"))
        import.set("lora_target_linear", "lora_target_modules", std::string("all-linear"));
    else if (import.has("lora_target_modules"))
        import.set("lora_target_modules", "lora_target_modules", import.at("lora_target_modules"));
}

// bf16 is auto unless fp16 is given; fp8 comes first.
void read_axolotl_precision(ForeignImport& import) {
    if (import.is_on("fp8")) return import.set("fp8", "mixed_precision", std::string("fp8"));
    for (const char* key : {"fp16", "float16"}) {
        if (import.is_on(key) && !import.is_on("bf16"))
            return import.set(key, "mixed_precision", std::string("fp16"));
        if (import.is_on(key)) import.idle(key, "axolotl goes by bf16 beside it");
    }
    for (const char* key : {"bf16", "bfloat16"}) {
        if (!import.has(key)) continue;
        const std::string value = import.text(key);
        const bool is_on = value == "auto" || value == "full" || import.is_on(key);
        if (value == "full")
            import.note(key, "masters and moments are fp32, and products are in bf16");
        return import.set(key, "mixed_precision", std::string(is_on ? "bf16" : "no"));
    }
    import.set_default("mixed_precision", "bf16");
}

}  // namespace

void read_axolotl_model(ForeignImport& import) {
    read_axolotl_base(import);
    read_axolotl_template(import);
    read_axolotl_adapter(import);
    read_axolotl_precision(import);
}

}  // namespace ringshard::config
