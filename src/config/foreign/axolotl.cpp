#include <algorithm>
#include <array>

#include "../value_text.hpp"
#include "axolotl_keys.hpp"
#include "foreign_import.hpp"
#include "reasons.hpp"
#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Reads the entries of `datasets`.
class AxolotlData {
public:
    explicit AxolotlData(ForeignImport& import) : import_(import) {}

    void read() {
        const bool pretrains = !import_.has("datasets") && import_.has("pretraining_dataset");
        const std::string path = pretrains ? "pretraining_dataset" : "datasets";
        const ordered_json entries = list_at(path);
        ordered_json sources = ordered_json::array();
        for (const ordered_json& entry : entries)
            if (auto source = read_entry(path, entry); !source.is_null())
                sources.push_back(std::move(source));
        if (!sources.empty()) import_.set(path, "datasets", sources);
        if (pretrains && !sources.empty()) {
            import_.set_default("packing", "true");
            import_.set_default("packing_strategy", "wrapped");
        }
        if (has_conversations_ && !import_.is_on("train_on_inputs"))
            import_.set(path, "roles_to_train", ordered_json::array({"assistant"}));
        read_evaluation();
    }

private:
    ordered_json list_at(const std::string& path) const {
        const ordered_json& value = import_.at(path);
        if (value.is_array()) return value;
        return value.is_null() ? ordered_json::array() : ordered_json::array({value});
    }

    void read_evaluation() {
        const ordered_json tests = list_at("test_datasets");
        if (tests.size() > 1)
            return import_.refuse("test_datasets", "one dataset is evaluated; leave one of them");
        if (tests.size() == 1) {
            const auto source = read_entry("test_datasets", tests.front());
            if (source.is_null()) return;
            import_.set("test_datasets", "eval_dataset_name", source["path"]);
            import_.set("test_datasets", "dataset_test_split", source["split"]);
            return;
        }
        if (import_.number("val_set_size", 0) > 0)
            import_.set("val_set_size", "test_split_size", import_.at("val_set_size"));
    }

    ordered_json read_entry(const std::string& path, const ordered_json& entry) {
        if (entry.is_string()) return {{"path", entry}, {"split", "train"}};
        if (!entry.is_object() || !entry.contains("path")) {
            import_.refuse(path, "each dataset needs a path");
            return nullptr;
        }
        ordered_json source = {{"path", entry["path"]}};
        source["split"] = entry.value("split", ordered_json("train"));
        for (const auto& [key, value] : entry.items()) {
            if (value.is_null() || key == "path" || key == "split") continue;
            if (key == "name" || key == "data_files")
                source[key] = value;
            else if (!is_read_by_type(key))
                import_.refuse(path, format_text("the key {} of a dataset", key));
        }
        if (entry.contains("ds_type") && entry.contains("data_files"))
            source["path"] = entry["ds_type"];
        read_type(path, entry, source);
        return source;
    }

    static bool is_read_by_type(const std::string& key) {
        static constexpr std::array known{"type",
                                          "ds_type",
                                          "field",
                                          "text_column",
                                          "field_messages",
                                          "message_property_mappings",
                                          "roles",
                                          "roles_to_train",
                                          "message_field_role",
                                          "message_field_content",
                                          "conversation",
                                          "field_tools",
                                          "train_on_eos",
                                          "field_thinking",
                                          "template_thinking_key",
                                          "chat_template",
                                          "trust_remote_code",
                                          "preprocess_shards",
                                          "shards",
                                          "drop_system_message",
                                          "field_human",
                                          "field_model",
                                          "revision"};
        return std::ranges::find(known, key) != known.end();
    }

    void read_type(const std::string& path, const ordered_json& entry, ordered_json& source) {
        const ordered_json type = entry.value("type", ordered_json());
        const bool learns_prompt = import_.is_on("train_on_inputs");
        if (type.is_object()) return read_user_defined(type, learns_prompt, source);
        const std::string name = type.is_string() ? type.get<std::string>() : "";
        if (name.starts_with("chat_template") || name.starts_with("sharegpt"))
            return read_conversation(path, entry, name.starts_with("sharegpt"), source);
        if (name == "alpaca") {
            source["row_template"] = alpaca_segments(learns_prompt);
        } else if (name == "alpaca:chat" || name == "alpaca:phi" || name == "alpaca:chatml") {
            source["row_template"] = styled_alpaca(name.substr(7), learns_prompt);
        } else if (name == "completion" || name == "pretrain" || name.empty()) {
            const std::string field =
                entry.value("field", entry.value("text_column", std::string("text")));
            if (field != "text") source["column_map"] = {{"text", field}};
        } else if (name == "input_output") {
            source["columns"] = {"segments"};
        } else {
            import_.refuse(path, format_text("the type {} of a dataset; row_template makes rows of "
                                             "any columns",
                                             name));
        }
    }

    static ordered_json styled_alpaca(const std::string& style, bool learns_prompt) {
        const std::string has = "{% if input is defined and input %}";
        const std::string system = "Below is an instruction that describes a task" + has +
                                   ", paired with an input that provides further context{% endif "
                                   "%}. Write a response that "
                                   "appropriately completes the request.";
        if (style == "chat")
            return segments_of("SYSTEM: " + system + "\nUSER: {{ instruction }}\n" + has +
                                   "{{ input }}\n{% endif %}ASSISTANT:",
                               "{{ output }}", learns_prompt);
        if (style == "chatml")
            return segments_of("<|im_start|>system\n" + system +
                                   "<|im_end|>\n<|im_start|>user\n{{ instruction }}" + has +
                                   "{{ '\\n' }}{{ input }}{% endif %}<|im_end|>\n"
                                   "<|im_start|>assistant\n",
                               "{{ output }}", learns_prompt);
        return segments_of("<|system|>\n" + system + "<|end|>\n<|user|>\n{{ instruction }}<|end|>" +
                               has +
                               "{{ input }}<|assistant|>{% else %}{{ '\\n' }}<|assistant|>"
                               "{{ '\\n' }}{% endif %}",
                           "{{ output }}", learns_prompt);
    }

    static void read_user_defined(const ordered_json& type, bool learns_prompt,
                                  ordered_json& source) {
        const auto text = [&](const char* key, const char* otherwise) {
            const ordered_json value = type.value(key, ordered_json());
            return value.is_string() ? value.get<std::string>() : std::string(otherwise);
        };
        const std::string input = text("field_input", "input");
        const std::map<std::string, std::string> columns{
            {"instruction", text("field_instruction", "instruction")}, {"input", input}};
        const std::string with = jinja_of_format(text("format", "{instruction} {input} "), columns);
        const std::string without =
            jinja_of_format(text("no_input_format", "{instruction} "), columns);
        const std::string system = text("field_system", "system");
        const std::string said = "(" + system + " if " + system + " is defined else " +
                                 ordered_json(text("system_prompt", "")).dump() + ")";
        const std::string before =
            jinja_of_format(text("system_format", "{system}"), {{"system", "told"}});
        source["row_template"] = segments_of(
            "{% set told = " + said + " %}{% if told %}" + before + "{% endif %}{% if " + input +
                " is defined and " + input + " %}" + with + "{% else %}" + without + "{% endif %}",
            "{{ " + text("field_output", "output") + " }}", learns_prompt);
    }

    void read_conversation(const std::string& path, const ordered_json& entry, bool is_share_gpt,
                           ordered_json& source) {
        has_conversations_ = true;
        const auto text = [&](const char* key, const char* otherwise) {
            const ordered_json value = entry.value(key, ordered_json());
            return value.is_string() ? value.get<std::string>() : std::string(otherwise);
        };
        const std::string field =
            text("field_messages", is_share_gpt ? "conversations" : "messages");
        ordered_json columns = ordered_json::object();
        if (field != "messages") columns["messages"] = field;
        if (const std::string tools = text("field_tools", "tools"); tools != "tools")
            columns["tools"] = tools;
        if (!columns.empty()) source["column_map"] = columns;
        const ordered_json mapping =
            entry.value("message_property_mappings", ordered_json::object());
        const auto key = [&](const char* ours, const char* older, const char* usual) {
            const ordered_json mapped = mapping.value(ours, ordered_json());
            return mapped.is_string() ? mapped.get<std::string>() : text(older, usual);
        };
        const std::string role = key("role", "message_field_role", is_share_gpt ? "from" : "role");
        const std::string content =
            key("content", "message_field_content", is_share_gpt ? "value" : "content");
        if (role != "role") source["role_key"] = role;
        if (content != "content") source["content_key"] = content;
        source["roles"] = entry.value("roles", ordered_json{{"user", {"human", "user"}},
                                                            {"assistant", {"gpt", "assistant"}},
                                                            {"system", {"system"}},
                                                            {"tool", {"tool"}}});
        if (entry.value("drop_system_message", false))
            import_.refuse(path, "drop_system_message; take system messages out of the data");
        if (text("field_thinking", "reasoning_content") !=
            text("template_thinking_key", "reasoning_content"))
            import_.refuse(path, "field_thinking of another name than template_thinking_key");
        const ordered_json roles =
            entry.value("roles_to_train", ordered_json::array({"assistant"}));
        if (roles != ordered_json::array({"assistant"}) && roles != ordered_json::array({"gpt"}))
            import_.refuse(path,
                           "roles_to_train other than assistant in one dataset; the setting "
                           "roles_to_train is for all of them");
        const std::string ends = text("train_on_eos", "turn");
        if (ends != "turn" && ends != "all")
            import_.refuse(path, format_text("train_on_eos {}", ends));
        if (const std::string name = text("chat_template", ""); !name.empty())
            import_.note(path, "chat_template of a dataset: the template of the run is used");
    }

    ForeignImport& import_;
    bool has_conversations_ = false;
};

void read_axolotl_adapter(ForeignImport& import) {
    const std::string adapter = import.text("adapter");
    if (adapter.empty() && !import.has("lora_model_dir")) {
        for (const char* key :
             {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_target_linear",
              "lora_target_parameters", "lora_modules_to_save"})
            if (import.has(key)) import.idle(key, "without adapter the whole model is trained");
        if (import.is_on("load_in_4bit"))
            import.refuse("load_in_4bit", "a base in four bits has adapters; give adapter qlora");
        return;
    }
    if (adapter != "lora" && adapter != "qlora")
        return import.refuse("adapter", "adapters are lora and qlora");
    import.set("adapter", "use_peft", std::string("true"));
    if (adapter == "qlora" || import.is_on("load_in_4bit")) {
        import.set(adapter == "qlora" ? "adapter" : "load_in_4bit", "load_in_4bit",
                   std::string("true"));
        import.set_default("use_bnb_nested_quant", "true");
    }
    import.set_default("lora_dropout", "0");
    for (const char* key :
         {"lora_r", "lora_alpha", "lora_dropout", "lora_target_parameters", "lora_modules_to_save"})
        if (import.has(key)) import.set(key, key, import.at(key));
    if (import.is_on("lora_target_linear"))
        import.set("lora_target_linear", "lora_target_modules", std::string("all-linear"));
    else if (import.has("lora_target_modules"))
        import.set("lora_target_modules", "lora_target_modules", import.at("lora_target_modules"));
}

void read_axolotl_precision(ForeignImport& import) {
    for (const char* key : {"bf16", "bfloat16"}) {
        if (!import.has(key)) continue;
        const std::string value = import.text(key);
        const bool is_on = value == "auto" || value == "full" || import.is_on(key);
        if (value == "full")
            import.note(key, "masters and moments are fp32, and products are in bf16");
        if (is_on) return import.set(key, "mixed_precision", std::string("bf16"));
    }
    for (const char* key : {"fp16", "float16"})
        if (import.is_on(key)) return import.set(key, "mixed_precision", std::string("fp16"));
    if (import.is_on("fp8")) return import.set("fp8", "mixed_precision", std::string("fp8"));
    import.set_default("mixed_precision", "no");
}

void read_axolotl_events(ForeignImport& import) {
    const double epochs = import.number("num_epochs", 1);
    const auto share = [&](const std::string& key, const std::string& strategy,
                           const std::string& steps) {
        const double count = import.number(key, 0);
        if (count <= 0) return false;
        if (count == 1) {
            import.set(key, strategy, std::string("epoch"));
        } else {
            import.set(key, strategy, std::string("steps"));
            import.set(key, steps, shortest(1.0 / (count * epochs)));
        }
        return true;
    };
    const bool evaluates = import.number("val_set_size", 0) > 0 || import.has("test_datasets");
    if (!evaluates) {
        if (import.has("evals_per_epoch"))
            import.idle("evals_per_epoch", "there is nothing to evaluate on");
    } else if (!share("evals_per_epoch", "eval_strategy", "eval_steps")) {
        if (!import.has("eval_strategy") && !import.has("evaluation_strategy"))
            import.set_default("eval_strategy", import.has("eval_steps") ? "steps" : "epoch");
    }
    if (import.text("save_strategy") == "best")
        import.refuse("save_strategy", "load_best_model_at_end true keeps the best model");
    else if (import.has("save_strategy"))
        import.set("save_strategy", "save_strategy", import.at("save_strategy"));
    else if (!share("saves_per_epoch", "save_strategy", "save_steps") && !import.has("save_steps"))
        import.set_default("save_strategy", "epoch");
    if (import.has("resume_from_checkpoint"))
        import.set("resume_from_checkpoint", "resume_from_checkpoint",
                   import.at("resume_from_checkpoint"));
}

void read_sharding(ForeignImport& import) {
    if (import.has("deepspeed")) {
        const std::string file = import.text("deepspeed");
        const std::string name = std::filesystem::path(file).stem().string();
        std::error_code ignored;
        if (std::filesystem::exists(file, ignored) || file.starts_with('{') ||
            !name.starts_with("zero") || name.size() < 5) {
            import.set("deepspeed", "deepspeed", import.at("deepspeed"));
        } else {
            const std::string profile = name.substr(0, 5);
            import.set("deepspeed", "profile", profile);
            import.note("deepspeed",
                        format_text("is not here: the built-in profile {} is used", profile));
        }
    }
    const ordered_json& words = import.at("fsdp");
    const bool has_words = words.is_array() ? !words.empty() : !asks_for_nothing(words);
    if (words.is_array() && has_words) {
        std::string joined;
        for (const ordered_json& word : words) joined += setting_text(word) + " ";
        import.set("fsdp", "fsdp", joined.substr(0, joined.size() - 1));
    } else if (has_words) {
        import.set("fsdp", "fsdp", words);
    }
    if (!asks_for_nothing(import.at("fsdp_config"))) {
        import.set("fsdp_config", "fsdp_config", import.at("fsdp_config"));
        if (!has_words) import.set("fsdp_config", "distributed_type", std::string("FSDP"));
    }
    if (import.has("fsdp_version"))
        import.set("fsdp_version", "fsdp_version", import.at("fsdp_version"));
}

void read_axolotl_model(ForeignImport& import) {
    const std::string base = import.text("base_model");
    for (const char* key : {"base_model_config", "tokenizer_config"})
        if (import.has(key) && import.text(key) != base)
            import.refuse(key, format_text("the files beside the weights in {} are read; "
                                           "chat_template_path takes another model's tokens",
                                           base));
    const std::string type = import.text("model_type", "AutoModelForCausalLM");
    if (type.find("Classification") != std::string::npos)
        import.refuse("model_type", "heads of classification are not served");
    for (const char* block :
         {"model_config", "overrides_of_model_config", "overrides_of_model_kwargs"})
        if (import.at(block).is_object())
            for (const auto& [field, value] : import.at(block).items())
                import.set_model_field(block, field, value);
    if (const std::string quantised = import.text("model_quantization_config");
        !quantised.empty() && quantised != "Mxfp4Config")
        import.refuse("model_quantization_config",
                      "bases in MXFP4 are read; adapter qlora makes four bits of others");
    const std::string checkpointing = import.text("gradient_checkpointing");
    if (checkpointing.starts_with("offload")) {
        import.set("gradient_checkpointing", "gradient_checkpointing", std::string("true"));
        import.set("gradient_checkpointing", "activation_offloading", std::string("true"));
    } else if (!checkpointing.empty()) {
        import.set("gradient_checkpointing", "gradient_checkpointing", checkpointing);
    }
    if (!asks_for_nothing(import.at("activation_offloading")))
        import.set("activation_offloading", "activation_offloading", std::string("true"));
    if (!asks_for_nothing(import.at("unfrozen_parameters"))) {
        std::vector<std::string> names;
        for (const ordered_json& name : import.at("unfrozen_parameters"))
            names.push_back(format_text("^(?:{})", setting_text(name)));
        import.set("unfrozen_parameters", "train_only", join(names, "|"));
    }
    if (!asks_for_nothing(import.at("tokens")) && import.at("tokens").is_array())
        import.set("tokens", "added_tokens", import.at("tokens"));
    else if (const ordered_json& eos = import.at("tokens.eos_token"); eos.is_string())
        import.set("tokens", "eos_token", eos);
}

void read_template(ForeignImport& import) {
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

void read_plugins(ForeignImport& import) {
    static constexpr std::array known{"cut_cross_entropy", "liger", "kernels", "expert_parallel"};
    for (const ordered_json& plugin : import.at("plugins")) {
        const std::string name = setting_text(plugin);
        const bool is_known = std::ranges::any_of(known, [&](const char* one) {
            return name.find(std::string("integrations.") + one) != std::string::npos;
        });
        if (!is_known)
            return import.refuse("plugins", format_text("{}: {}", name, reasons::no_plugins));
    }
    if (import.has("plugins")) import.idle("plugins", reasons::kernels);
}

void translate_axolotl(ForeignImport& import) {
    read_axolotl_model(import);
    read_template(import);
    read_axolotl_adapter(import);
    read_axolotl_precision(import);
    read_axolotl_events(import);
    read_sharding(import);
    read_plugins(import);
    AxolotlData(import).read();
    if (!import.has("warmup_steps") && !import.has("warmup_ratio"))
        import.set_default("warmup_steps", "0.03");
    if (import.has("cosine_min_lr_ratio")) {
        import.set("cosine_min_lr_ratio", "lr_scheduler_kwargs",
                   ordered_json{
                       { "min_lr_rate",
                         import.number("cosine_min_lr_ratio", 0) }});
        import.note("cosine_min_lr_ratio", "min_lr_rate of lr_scheduler_type cosine_with_min_lr");
    }
    if (const std::string excess = import.text("excess_length_strategy"); excess == "truncate")
        import.set("excess_length_strategy", "truncation_mode", std::string("keep_start"));
    else if (!excess.empty() && excess != "drop")
        import.refuse("excess_length_strategy", "rows that are too long are dropped or cut");
    if (import.has("hub_model_id")) {
        import.set("hub_model_id", "hub_model_id", import.at("hub_model_id"));
        import.set("hub_model_id", "push_to_hub", std::string("true"));
    }
}

}  // namespace

const ForeignTrainer& axolotl() {
    static const ForeignTrainer trainer{"axolotl", axolotl_keys(), axolotl_defaults(),
                                        translate_axolotl};
    return trainer;
}

}  // namespace ringshard::config
