#include <yaml-cpp/yaml.h>

#include "../settings_file.hpp"
#include "../value_text.hpp"
#include "foreign_import.hpp"
#include "reasons.hpp"

// Version 1 of LLaMA-Factory, whose files have other keys than those of version 0.
namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

using enum KeyMeaning;

constexpr ForeignKey v1_keys[] = {
    {"model", sets, "model_name_or_path"},
    {"model_class", refused, "causal language models are trained", "llm"},
    {"custom_chat_template", sets, "chat_template"},
    {"trust_remote_code", idle, reasons::model_code},
    {"flash_attn", idle, reasons::attention},
    {"init_config*", idle, "every rank loads its own shards"},
    {"kernel_config*", idle, reasons::kernels},
    {"peft_config", read},
    {"quant_config", read},
    {"train_dataset", read},
    {"eval_dataset", refused, "give eval_dataset_name and eval_strategy"},
    {"micro_batch_size", sets, "per_device_train_batch_size"},
    {"global_batch_size", sets, "train_batch_size"},
    {"cutoff_len", sets, "max_length"},
    {"bf16", sets, "mixed_precision", "true=bf16;false=no"},
    {"batching_strategy", refused,
     "a step has a fixed number of rows; packing true fills rows of cutoff_len",
     "normal;padding_free"},
    {"batching_workers", idle, reasons::prefetch},
    {"enable_activation_checkpointing", sets, "gradient_checkpointing"},
    {"dist_config", read},
    {"dp_size", idle, "the ranks that were started are the world"},
    {"cp_mode", read},
    {"cp_size", read},
    {"mp_*", idle, reasons::shards},
    {"dist_timeout", idle, "hang_timeout_s says when a run hangs"},
    {"optim_config", read},
    {"lr_scheduler_config*", refused, "the learning rate is constant; give lr_scheduler_type"},
    {"save_epochs", refused, "save_strategy epoch saves after each epoch"},
    {"save_steps", read},
    {"save_ckpt_as_hf", idle, "the model is written as safetensors"},
    {"full_determinism", idle, "a run repeats its numbers"},
    {"sample_backend", idle, "it concerns generation"},
    {"max_new_tokens", idle, "it concerns generation"},
    {"pref_*", idle, "it concerns preferences"},
    {"simpo_gamma", idle, "it concerns preferences"},
    {"dpo_label_smoothing", idle, "it concerns preferences"},
    {"ld_alpha", idle, "it concerns preferences"},
};

constexpr ForeignDefault v1_defaults[] = {
    {"max_length", "2048"},    {"per_device_train_batch_size", "1"},
    {"learning_rate", "1e-4"}, {"lr_scheduler_type", "constant"},
    {"weight_decay", "0.01"},  {"mixed_precision", "bf16"},
    {"logging_steps", "1"},    {"output_dir", "outputs"},
};

// An instruction stands before its input without a break.
const std::string alpaca_template =
    "{\"messages\": [{% if system is defined and system is not none %}{\"role\": \"system\", "
    "\"content\": {{ system | tojson }}}, {% endif %}{\"role\": \"user\", \"content\": {{ "
    "((instruction if instruction is defined and instruction else '') ~ (input if input is defined "
    "and input else '')) | tojson }}}, {\"role\": \"assistant\", \"content\": {{ output | tojson "
    "}}}]}";

// Reads the file of datasets that train_dataset names.
class DataV1 {
public:
    explicit DataV1(ForeignImport& import) : import_(import) {}

    void read() {
        const std::string name = import_.text("train_dataset");
        if (!name.ends_with(".yaml"))
            return import_.refuse("train_dataset",
                                  "give a file of datasets, or dataset_name and row_template");
        const auto text = read_text_file(name);
        if (!text)
            return import_.refuse("train_dataset", "the file is not there, or cannot be read");
        ordered_json sources = ordered_json::array();
        const ForeignFile sets = read_foreign_yaml(*text, name);
        for (const auto& [entry, value] : sets.content.items())
            if (auto source = source_of(entry, value); !source.is_null())
                sources.push_back(std::move(source));
        if (sources.empty()) return;
        import_.set("train_dataset", "datasets", sources);
        import_.set("train_dataset", "roles_to_train", ordered_json::array({"assistant"}));
    }

private:
    ordered_json source_of(const std::string& name, const ordered_json& entry) {
        const auto word = [&](const char* key, const char* otherwise) {
            const ordered_json value =
                entry.is_object() ? entry.value(key, ordered_json()) : ordered_json();
            return value.is_null() ? std::string(otherwise) : setting_text(value);
        };
        const std::string converter = word("converter", "");
        if (converter == "pair") {
            import_.refuse("train_dataset", format_text("{}: {}", name, reasons::fine_tuning_only));
            return nullptr;
        }
        if (converter != "alpaca") {
            import_.refuse(
                "train_dataset",
                format_text("{}: the converter '{}'; alpaca is served, and LLaMA-Factory "
                            "makes a row of every answer of a conversation",
                            name, converter));
            return nullptr;
        }
        ordered_json source = {{"path", word("path", "")}};
        source["split"] = word("split", "train");
        if (const std::string size = word("size", ""); !size.empty()) {
            source["split"] = format_text("{}[:{}]", word("split", "train"), size);
            import_.note("train_dataset",
                         format_text("{}: size is the first {} rows; LLaMA-Factory "
                                     "draws so many, some more than once",
                                     name, size));
        }
        if (!word("weight", "").empty())
            import_.refuse("train_dataset", format_text("{}: weight; leave it out", name));
        source["row_template"] = alpaca_template;
        return source;
    }

    ForeignImport& import_;
};

void read_peft(ForeignImport& import) {
    const ordered_json& peft = import.at("peft_config");
    if (peft.is_null()) return;
    if (import.text("peft_config.name") != "lora")
        return import.refuse("peft_config",
                             "lora is served; train_only names weights that are "
                             "trained alone");
    import.set("peft_config.name", "use_peft", std::string("true"));
    import.set_default("lora_r", "8");
    import.set_default("lora_alpha", "16");
    import.set_default("lora_dropout", "0.05");
    import.set_default("lora_target_modules", "all-linear");
    const std::pair<const char*, const char*> names[] = {
        {"r", "lora_r"},
        {"lora_alpha", "lora_alpha"},
        {"lora_dropout", "lora_dropout"},
        {"use_rslora", "use_rslora"},
        {"use_dora", "use_dora"},
        {"modules_to_save", "lora_modules_to_save"},
        {"adapter_name_or_path", "adapter_name_or_path"}};
    for (const auto& [theirs, ours] : names)
        if (import.has(concat("peft_config.", theirs)))
            import.set(concat("peft_config.", theirs), ours,
                       import.at(concat("peft_config.", theirs)));
    if (import.has("peft_config.target_modules") &&
        import.text("peft_config.target_modules") != "all")
        import.set("peft_config.target_modules", "lora_target_modules",
                   import.at("peft_config.target_modules"));
    for (const auto& [key, value] : peft.items())
        if (key.starts_with("export_") || key == "infer_dtype")
            import.idle("peft_config." + key, "it concerns generation and export");
}

void read_quantised_base(ForeignImport& import) {
    if (asks_for_nothing(import.at("quant_config"))) return;
    const std::string name = import.text("quant_config.name", "auto");
    const std::string bits = import.text("quant_config.quantization_bit");
    if ((name != "bnb" && name != "auto") || (bits != "4" && bits != "8"))
        return import.refuse("quant_config", "4 and 8 bits of bnb are served");
    import.set("quant_config.quantization_bit", bits == "4" ? "load_in_4bit" : "load_in_8bit",
               std::string("true"));
    if (bits == "4") import.set_default("use_bnb_nested_quant", "true");
}

void read_ranks(ForeignImport& import) {
    const std::string name = import.text("dist_config.name", "fsdp2");
    if (name == "deepspeed")
        import.set("dist_config.config_file", "deepspeed", import.at("dist_config.config_file"));
    else if (import.has("dist_config"))
        import.set("dist_config.name", "distributed_type", std::string("FSDP"));
    for (const auto& [key, value] : import.at("dist_config").items()) {
        if (key == "ep_size")
            import.set("dist_config.ep_size", "ep_size", value);
        else if (key != "name" && key != "config_file" && !value.is_null())
            import.idle("dist_config." + key, reasons::layout);
    }
    if (import.has("cp_size"))
        import.set("cp_size",
                   import.text("cp_mode", "ulysses") == "ulysses" ? "sp_size" : "cp_size",
                   import.at("cp_size"));
    if (import.has("save_steps"))
        import.set("save_steps", "save_steps", import.at("save_steps"));
    else
        import.set_default("save_strategy", "no");
}

void translate_v1(ForeignImport& import) {
    if (import.has("optim_config"))
        import.refuse("optim_config", "AdamW is served, with the decay 0.01 of PyTorch");
    read_peft(import);
    read_quantised_base(import);
    read_ranks(import);
    DataV1(import).read();
}

}  // namespace

const ForeignTrainer& llama_factory_v1() {
    static const ForeignTrainer trainer{
        "LLaMA-Factory's version 1", {v1_keys}, v1_defaults, translate_v1};
    return trainer;
}

}  // namespace ringshard::config
