#include <algorithm>
#include <array>

#include "../value_text.hpp"
#include "foreign_muon.hpp"
#include "llama_factory_data.hpp"
#include "llama_factory_keys.hpp"
#include "reasons.hpp"

namespace ringshard::config {

namespace {

void read_tuner(ForeignImport& import) {
    const std::string type = import.text("finetuning_type", "lora");
    if (type == "full") {
        for (const char* key :
             {"lora_rank", "lora_alpha", "lora_dropout", "lora_target", "additional_target",
              "use_rslora", "use_dora", "loraplus_lr_ratio", "pissa_init", "pissa_iter"})
            if (import.has(key))
                import.idle(key, "with finetuning_type full the whole model is trained");
        return;
    }
    if (type != "lora")
        return import.refuse("finetuning_type",
                             "lora and full are served; train_only names "
                             "weights that are trained alone");
    import.set("finetuning_type", "use_peft", std::string("true"));
    const double rank = import.number("lora_rank", 8);
    import.set_default("lora_r", shortest(rank));
    import.set_default("lora_alpha", shortest(2 * rank));
    import.set_default("lora_dropout", "0");
    import.set_default("lora_target_modules", "all-linear");
    if (import.has("lora_rank")) import.set("lora_rank", "lora_r", import.at("lora_rank"));
    if (import.has("lora_target") && import.text("lora_target") != "all")
        import.set("lora_target", "lora_target_modules", import.at("lora_target"));
    if (import.has("additional_target"))
        import.set("additional_target", "lora_modules_to_save", import.at("additional_target"));
    for (const char* key :
         {"lora_alpha", "lora_dropout", "use_rslora", "use_dora", "loraplus_lr_ratio"})
        if (import.has(key)) import.set(key, key, import.at(key));
    if (import.is_on("pissa_init")) {
        const double rounds = import.number("pissa_iter", 16);
        import.set("pissa_init", "init_lora_weights",
                   rounds < 0 ? std::string("pissa") : "pissa_niter_" + shortest(rounds));
    }
}

void read_base(ForeignImport& import) {
    const bool has_four_bits = import.text("quantization_bit") == "4";
    import.set_of_four_bits(has_four_bits, "double_quantization", "use_bnb_nested_quant");
    import.set_of_four_bits(has_four_bits, "quantization_type", "bnb_4bit_quant_type");
    if (!import.has("quantization_bit")) return;
    const std::string method = import.text("quantization_method", "bnb");
    if (method != "bnb" && method != "bitsandbytes" && method != "BNB")
        return import.refuse("quantization_method", "bnb is served");
    if (import.text("quantization_bit") == "8")
        import.set("quantization_bit", "load_in_8bit", std::string("true"));
    else if (has_four_bits)
        import.set("quantization_bit", "load_in_4bit", std::string("true"));
    else
        import.refuse("quantization_bit", "4 and 8 are served");
}

void read_rope(ForeignImport& import) {
    const std::string kind = import.text("rope_scaling");
    if (kind.empty() || kind == "none") return;
    import.refuse(
        "rope_scaling",
        "rope_parameters has the positions, as {\"rope_type\": \"yarn\", \"factor\": 4.0, "
        "\"original_max_position_embeddings\": 32768}");
}

// fp8 comes before bf16, which it is beside.
void read_factory_precision(ForeignImport& import) {
    import.refuse_beside("fp16", "bf16");
    for (const auto& [key, precision] : {std::pair{"fp8", "fp8"}, std::pair{"pure_bf16", "bf16"},
                                         std::pair{"bf16", "bf16"}, std::pair{"fp16", "fp16"}}) {
        if (!import.is_on(key)) continue;
        import.set(key, "mixed_precision", std::string(precision));
        if (std::string_view(key) == "pure_bf16")
            import.note(key, "masters and moments are fp32, and products are in bf16");
        return;
    }
}

// The form in which a template of LLaMA-Factory writes tools anyway, as the models' own chat
// templates do; empty: another one.
std::string_view tool_format_of(std::string_view name) {
    constexpr std::pair<std::string_view, std::string_view> own[] = {
        {"qwen", "qwen"},          {"qwen3", "qwen"},        {"qwen3_nothink", "qwen"},
        {"mimo", "qwen"},          {"mimo_v2", "qwen"},      {"qwen3_5", "qwen3_5"},
        {"qwen3_6", "qwen3_5"},    {"llama3", "llama3"},     {"llama4", "llama3"},
        {"mistral", "mistral"},    {"ministral", "mistral"}, {"mistral_small", "mistral"},
        {"ministral3", "mistral"}, {"glm4", "glm4"},         {"glmz1", "glm4"},
        {"glm4_moe", "glm4_moe"},  {"glm4_7", "glm4_moe"},   {"gemma4", "gemma4"},
        {"lfm2", "lfm2"},          {"minimax1", "minimax1"}, {"minimax2", "minimax2"},
        {"seed_oss", "seed_oss"},  {"bailing_v2", "ling"},   {"qwen3_5_nothink", "qwen3_5"},
    };
    const auto* const found =
        std::ranges::find(own, name, &std::pair<std::string_view, std::string_view>::first);
    return found == std::end(own) ? std::string_view() : found->second;
}

void read_tool_format(ForeignImport& import) {
    const std::string format = import.text("tool_format");
    if (format.empty()) return;
    if (format == tool_format_of(import.text("template")))
        import.idle("tool_format", "the chat template writes tools in this form");
    else
        import.refuse("tool_format",
                      "the chat template writes tools; chat_template_path names another one, and "
                      "agent_template has the forms hermes and react_en");
}

// Of stage kto.
void read_factory_answers(ForeignImport& import) {
    import.set("stage", "method", std::string("kto"));
    import.set_default("shuffle_dataset", "true");
    import.note("stage",
                "rows are shuffled once (shuffle_dataset), and the baseline is of the rows of a "
                "step");
    if (import.has("pref_beta")) import.set("pref_beta", "beta", import.at("pref_beta"));
    const auto weight = [&](const char* theirs, const char* ours) {
        if (import.has(theirs)) import.set(theirs, ours, import.at(theirs));
    };
    weight("kto_chosen_weight", "desirable_weight");
    weight("kto_rejected_weight", "undesirable_weight");
    if (import.number("kto_ftx", 0) > 0)
        import.refuse("kto_ftx", "the loss is that of answers alone; leave it out");
    for (const char* key : {"pref_loss", "pref_ftx", "dpo_label_smoothing", "simpo_gamma"})
        if (import.has(key)) import.idle(key, "it concerns stage dpo");
}

// Of stage rm.
void read_factory_rewards(ForeignImport& import) {
    import.set("stage", "method", std::string("reward"));
    import.set_default("truncation_mode", "keep_start");
    import.note("stage",
                "the head is score of ForSequenceClassification, in place of TRL's value head: "
                "without a bias, which cancels in a pair, and without dropout");
}

// Settings of preferences, which a file of another stage may have too.
void read_preferences(ForeignImport& import) {
    if (import.text("stage") == "rm") read_factory_rewards(import);
    if (import.text("stage") == "kto") return read_factory_answers(import);
    for (const char* key : {"kto_chosen_weight", "kto_rejected_weight", "kto_ftx"})
        if (import.has(key)) import.idle(key, "it concerns stage kto");
    if (import.text("stage") != "dpo") {
        for (const char* key :
             {"pref_beta", "pref_loss", "pref_ftx", "dpo_label_smoothing", "simpo_gamma"})
            if (import.has(key)) import.idle(key, "it concerns preferences");
        return;
    }
    const bool is_simpo = import.text("pref_loss") == "simpo";
    const bool is_odds = import.text("pref_loss") == "orpo";
    const bool has_reference = !is_simpo && !is_odds;
    import.set("stage", "method", std::string(has_reference ? "dpo" : "cpo"));
    if (is_simpo) import.set_default("cpo_alpha", "0");
    if (is_odds) import.set_default("completion_only_loss", "true");
    const bool adds_likelihood = import.number("pref_ftx", 0) > 0;
    if (is_odds && adds_likelihood)
        import.refuse("pref_ftx", "orpo has that cross-entropy with the weight 1; leave it out");
    else if (adds_likelihood)
        import.set("pref_ftx", has_reference ? "rpo_alpha" : "cpo_alpha", import.at("pref_ftx"));
    if (is_odds || adds_likelihood) import.set_default("likelihood_per_answer", "true");
    if (import.has("simpo_gamma") && is_simpo)
        import.set("simpo_gamma", "simpo_gamma", import.at("simpo_gamma"));
    else if (import.has("simpo_gamma"))
        import.idle("simpo_gamma", "it concerns pref_loss simpo");
    if (import.has("pref_beta")) import.set("pref_beta", "beta", import.at("pref_beta"));
    const std::string loss = import.text("pref_loss", "sigmoid");
    constexpr std::array losses{"sigmoid", "hinge", "ipo", "simpo", "orpo"};
    if (std::ranges::find(losses, loss) == losses.end())
        import.refuse("pref_loss", "use sigmoid, hinge, ipo, simpo or orpo");
    else
        import.set("pref_loss", "loss_type", loss);
    if (import.number("dpo_label_smoothing", 0) > 0)
        import.refuse("dpo_label_smoothing",
                      "loss_type robust has label_smoothing, which is another loss");
}

// Rows that are too long.
void read_long_rows(ForeignImport& import, bool is_plain_text) {
    if (is_plain_text) return;
    if (import.is_on("packing") || import.is_on("neat_packing"))
        return import.set_default("truncation_mode", "drop");
    if (import.has("cutoff_len"))
        import.note("cutoff_len",
                    "what lies behind it is cut, where LLaMA-Factory shortens prompt and answer in "
                    "proportion");
}

void translate_llama_factory(ForeignImport& import) {
    if (const std::string adapter = import.text("adapter_name_or_path");
        adapter.find(',') != std::string::npos)
        import.refuse("adapter_name_or_path",
                      "one adapter goes on; merge the others into the model before");
    else if (!adapter.empty())
        import.set("adapter_name_or_path", "adapter_name_or_path", adapter);
    const std::string stage = import.text("stage", "sft");
    constexpr std::array served{"sft", "pt", "dpo", "kto", "rm"};
    if (std::ranges::find(served, stage) == served.end())
        import.refuse("stage", reasons::fine_tuning_only);
    read_preferences(import);
    read_tuner(import);
    read_base(import);
    read_rope(import);
    if (import.is_on("neat_packing"))
        import.set("neat_packing", "packing", std::string("true"));
    else if (import.has("packing"))
        import.set("packing", "packing", import.at("packing"));
    else if (stage == "pt")
        import.set_default("packing", "true");
    if (stage == "pt") import.set_default("packing_strategy", "wrapped");
    read_long_rows(import, stage == "pt");
    read_factory_precision(import);
    if (import.is_on("do_predict")) {
        if (import.is_on("do_train"))
            import.set("do_predict", "do_predict", std::string("true"));
        else
            import.refuse("do_predict",
                          "without do_train the file trains nothing; trainer score has the losses "
                          "of rows");
    }
    if (import.is_on("packing") && !import.is_on("neat_packing") && stage != "pt")
        import.note("packing", "documents of a packed row stay apart, as with neat_packing");
    if (import.is_on("use_muon")) set_muon_of_moonlight(import, "use_muon");
    if (import.is_on("use_kt"))
        import.note("use_kt",
                    "the ranks compute the experts; offload_param_device cpu keeps weights in the "
                    "memory of the hosts");
    if (import.has("template"))
        import.note("template",
                    "the tokenizer's own chat template is used; chat_template_path names another");
    read_tool_format(import);
    read_llama_factory_data(import);
}

}  // namespace

const ForeignTrainer& llama_factory() {
    static const ForeignTrainer trainer{
        "LLaMA-Factory", {llama_factory_keys()}, llama_factory_defaults(), translate_llama_factory};
    return trainer;
}

}  // namespace ringshard::config
