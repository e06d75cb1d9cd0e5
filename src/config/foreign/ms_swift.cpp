#include <cmath>

#include "../settings_file.hpp"
#include "../value_text.hpp"
#include "foreign_muon.hpp"
#include "ms_swift_keys.hpp"
#include "reasons.hpp"
#include "ringshard/base/parse_json.hpp"
#include "swift_data.hpp"
#include "swift_keys.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// ms-swift's default is about 16 rows a step over all ranks.
void read_batch(ForeignImport& import) {
    if (import.has("gradient_accumulation_steps")) return;
    const double rows = std::max(1.0, import.number("per_device_train_batch_size", 1));
    if (std::fmod(16, rows) == 0)
        import.set_default("train_batch_size", "16");
    else
        import.set_default("gradient_accumulation_steps",
                           shortest(std::max(1.0, std::ceil(16 / rows))));
}

void read_ms_swift_precision(ForeignImport& import) {
    const std::string type = import.text("torch_dtype");
    if (type == "bfloat16") import.set("torch_dtype", "mixed_precision", std::string("bf16"));
    if (type == "float32") import.set("torch_dtype", "mixed_precision", std::string("no"));
    if (type == "float16") import.set("torch_dtype", "mixed_precision", std::string("fp16"));
    import.set_of_four_bits(import.text("quant_bits") == "4", "bnb_4bit_use_double_quant",
                            "use_bnb_nested_quant");
    if (import.has("quant_bits")) {
        const std::string bits = import.text("quant_bits");
        const std::string method = import.text("quant_method", "bnb");
        if (method != "bnb" || (bits != "4" && bits != "8"))
            import.refuse("quant_bits", "4 and 8 bits of quant_method bnb are served");
        else
            import.set("quant_bits", bits == "4" ? "load_in_4bit" : "load_in_8bit",
                       std::string("true"));
    }
}

// fsdp is a preset, words as in transformers, or a file with the words and the configuration.
void read_swift_fsdp(ForeignImport& import, const std::string& fsdp) {
    if (!fsdp.ends_with(".json")) return import.set("fsdp", "profile", fsdp);
    const auto text = read_text_file(fsdp);
    const auto file = text ? parse_json<ordered_json>(*text) : parse_json<ordered_json>("");
    if (!file || !file.value().is_object() || !file.value().contains("fsdp_config"))
        return import.refuse("fsdp", "the file is not there, or has no fsdp_config");
    ordered_json config = file.value()["fsdp_config"];
    if (config.value("activation_cpu_offload", false))
        import.set("fsdp", "activation_offloading", std::string("true"));
    config.erase("activation_cpu_offload");
    import.set("fsdp", "fsdp", file.value().value("fsdp", ordered_json("full_shard")));
    import.set("fsdp_config", "fsdp_config", config);
}

void read_swift_sharding(ForeignImport& import) {
    const std::string deepspeed = import.text("deepspeed");
    if (deepspeed.ends_with("_offload") && deepspeed.size() == 13) {
        import.set("deepspeed", "profile", deepspeed.substr(0, 5));
        import.set("deepspeed", "offload_optimizer_device", std::string("cpu"));
        if (deepspeed.starts_with("zero3"))
            import.set("deepspeed", "offload_param_device", std::string("cpu"));
    } else if (deepspeed == "zero0") {
        import.set("deepspeed", "profile", std::string("multi_gpu"));
    } else if (deepspeed.starts_with("zero") && deepspeed.size() == 5) {
        import.set("deepspeed", "profile", deepspeed);
    } else if (!deepspeed.empty()) {
        import.set("deepspeed", "deepspeed", deepspeed);
    }
    if (import.has("fsdp")) read_swift_fsdp(import, import.text("fsdp"));
}

void read_optimizer(ForeignImport& import) {
    const std::string optimizer = import.text("optimizer");
    if (optimizer == "muon") return set_muon_of_moonlight(import, "optimizer");
    if (!optimizer.empty())
        import.refuse("optimizer", "use optimizer muon, or optim adafactor or adamw_8bit");
    if (import.has("optim_args")) import.set("optim_args", "optim_args", import.at("optim_args"));
}

void read_loss_of_tokens(ForeignImport& import) {
    for (const char* key : {"beta", "label_smoothing"})
        if (import.has(key)) import.idle(key, "it concerns preferences");
    if (!import.has("loss_type")) return;
    const std::string loss = import.text("loss_type");
    if (loss == "loss_scale" || loss == "cross_entropy")
        import.idle("loss_type", "it is the usual one");
    else
        import.refuse("loss_type", "loss_type has nll and dft");
}

// Settings of one method, which a command of another one may have too.
void read_for(ForeignImport& import, bool is_method, std::initializer_list<const char*> keys,
              const char* otherwise) {
    for (const char* key : keys)
        if (import.has(key) && is_method)
            import.set(key, key, import.at(key));
        else if (import.has(key))
            import.idle(key, otherwise);
}

// Rows keep their order in a run of single answers, since those of a step give its baseline.
void read_swift_answers(ForeignImport& import) {
    import.set("rlhf_type", "method", std::string("kto"));
    import.set_default("shuffle_dataset", "true");
    import.note("rlhf_type",
                "rows are shuffled once (shuffle_dataset), and the baseline is of the rows of a "
                "step");
    read_for(import, true, {"beta", "loss_type"}, "");
}

// Of `swift rlhf` pairs of answers and single ones are served.
void read_swift_method(ForeignImport& import) {
    const std::string type = import.text("rlhf_type");
    if (import.has("rlhf_type") && !swift_learns_pairs(import) && !swift_judges(import))
        return import.refuse("rlhf_type", reasons::fine_tuning_only);
    if (!import.has("rlhf_type") && import.text("command") == "swift rlhf")
        return import.refuse("command", "give rlhf_type dpo, cpo, simpo, orpo, kto or rm");
    read_swift_task(import);
    const bool is_loss = type == "simpo" || type == "orpo";
    const bool has_no_reference = type == "cpo" || is_loss;
    read_for(import, type == "rm", {"center_rewards_coefficient"}, "it concerns rewards");
    read_for(import, has_no_reference && type != "orpo", {"cpo_alpha"},
             "it concerns rlhf_type cpo and simpo");
    read_for(import, type == "dpo", {"rpo_alpha"}, "it concerns rlhf_type dpo");
    read_for(import, type == "simpo", {"simpo_gamma"}, "it concerns rlhf_type simpo");
    read_for(import, swift_judges(import), {"desirable_weight", "undesirable_weight"},
             "it concerns rlhf_type kto");
    if (swift_judges(import)) return read_swift_answers(import);
    if (!swift_learns_pairs(import) || type == "rm") read_loss_of_tokens(import);
    if (!swift_learns_pairs(import)) return;
    import.set("rlhf_type", "method",
               type == "rm"       ? std::string("reward")
               : has_no_reference ? std::string("cpo")
                                  : type);
    if (type == "rm") return;
    if (is_loss) import.set("rlhf_type", "loss_type", type);
    if (type == "orpo") import.set_default("completion_only_loss", "true");
    if (type == "simpo") {
        import.set_default("simpo_gamma", "1");
        import.set_default("beta", "2");
    }
    read_for(import, true, {"beta"}, "");
    read_for(import, !is_loss, {"loss_type"}, "rlhf_type is the loss");
    if (import.number("label_smoothing", 0) > 0)
        import.refuse("label_smoothing",
                      "loss_type robust has label_smoothing, which is another loss");
}

void translate_ms_swift(ForeignImport& import) {
    read_swift_method(import);
    read_swift_tuner(import, "lora");
    const std::string tuner =
        import.text(import.has("train_type") ? "train_type" : "tuner_type", "lora");
    import.set_default("learning_rate", tuner == "full" ? "1e-5" : "1e-4");
    read_swift_template(import);
    read_swift_data(import);
    read_batch(import);
    read_ms_swift_precision(import);
    read_swift_sharding(import);
    read_optimizer(import);
    read_swift_rest(import);
    if (!import.has("early_stop_interval")) return;
    import.set("early_stop_interval", "early_stopping_patience", import.at("early_stop_interval"));
    if (import.has("metric_for_best_model")) return;
    import.set_default("metric_for_best_model", "loss");
    import.set_default("greater_is_better", "false");
}

}  // namespace

const ForeignTrainer& ms_swift() {
    static const ForeignTrainer trainer{"ms-swift",
                                        {ms_swift_keys(), swift_shared_keys()},
                                        ms_swift_defaults(),
                                        translate_ms_swift};
    return trainer;
}

}  // namespace ringshard::config
