#include "../settings_file.hpp"
#include "../value_text.hpp"
#include "ringshard/config/loss_scale.hpp"
#include "swift_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

bool is_pretraining(const ForeignImport& import) { return import.text("command").ends_with("pt"); }

// Reads "last_round+ignore_empty_think": whose words are learned, and which of them are not.
void read_swift_loss_scale(ForeignImport& import) {
    if (swift_learns_pairs(import) || swift_judges(import) || swift_classifies(import)) {
        if (import.has("loss_scale") && import.text("loss_scale") != "last_round")
            import.refuse("loss_scale", "documents are learned as a whole");
        return;
    }
    const std::string key = import.has("loss_scale") ? "loss_scale" : "dataset";
    std::string base = is_pretraining(import) ? "all" : "default";
    const std::string given = import.text("loss_scale", base);
    for (const std::string& part : split(given, '+'))
        if (part == "default" || part == "last_round" || part == "all") base = part;
    const LossScaleWords words = read_loss_scale(given);
    if (!words.wrong.empty())
        import.refuse("loss_scale",
                      "default, last_round, all, ignore_empty_think, ignore_think_prefix, hermes, "
                      "react, qwen and alpha_umi are served; messages and rows have the keys train "
                      "and weight");
    else if (words.rules == std::vector<std::string>{"ignore_empty_think"})
        import.set(key, "mask_reasoning", std::string("empty"));
    else if (!words.rules.empty()) {
        import.note("loss_scale",
                    "the loss of a step is divided by the sum of the weights of its targets, and "
                    "in ms-swift by their number");
        import.set(key, "loss_scale", format_text("{}+{}", base, join(words.rules, "+")));
    }
    if (base != "all" && !swift_uses_template(import))
        return import.refuse(key,
                             "rows without a chat template are learned whole: give loss_scale all");
    if (base != "all") import.set(key, "roles_to_train", ordered_json::array({"assistant"}));
    if (base == "last_round") import.set(key, "train_on_last_turn_only", std::string("true"));
}

void read_system(ForeignImport& import) {
    if (!import.has("system")) return;
    const std::string system = import.text("system");
    if (!system.ends_with(".txt")) return import.set("system", "system_prompt", system);
    if (const auto text = read_text_file(system))
        import.set("system", "system_prompt", *text);
    else
        import.refuse("system", "the file is not there; give the text itself");
}

void read_length(ForeignImport& import) {
    const std::string strategy = import.text("truncation_strategy", "delete");
    if (strategy == "right")
        import.set("truncation_strategy", "truncation_mode", std::string("keep_start"));
    else if (strategy == "left")
        import.set("truncation_strategy", "truncation_mode", std::string("keep_end"));
    else if (strategy == "split")
        import.set("truncation_strategy", "packing_strategy", std::string("bfd_split"));
}

void read_added_tokens(ForeignImport& import) {
    const ordered_json& given = import.at("new_special_tokens");
    if (given.is_null()) return;
    ordered_json tokens = ordered_json::array();
    for (const ordered_json& one : given.is_array() ? given : ordered_json::array({given})) {
        const std::string name = setting_text(one);
        if (!name.ends_with(".txt")) {
            tokens.push_back(name);
            continue;
        }
        const auto text = read_text_file(name);
        if (!text) return import.refuse("new_special_tokens", "the file is not there");
        for (const std::string& line : split(*text, '\n'))
            for (const std::string& token : split(std::string(trim(line)), ' '))
                if (!token.empty()) tokens.push_back(token);
    }
    import.set("new_special_tokens", "added_tokens", tokens);
}

}  // namespace

bool swift_uses_template(const ForeignImport& import) {
    return import.has("use_chat_template") ? import.is_on("use_chat_template")
                                           : !is_pretraining(import);
}

void read_swift_template(ForeignImport& import) {
    read_swift_loss_scale(import);
    if (import.has("template"))
        import.note("template",
                    "the tokenizer's own chat template is used; chat_template_path "
                    "names another");
    read_system(import);
    read_length(import);
}

void read_swift_rest(ForeignImport& import) {
    read_added_tokens(import);
    if (import.has("rope_scaling"))
        import.refuse("rope_scaling",
                      "rope_parameters has the positions, as {\"rope_type\": \"yarn\", \"factor\": "
                      "4.0, \"original_max_position_embeddings\": 32768}");
    if (import.has("add_non_thinking_prefix"))
        import.note("add_non_thinking_prefix",
                    "the tokenizer's own chat template says how an answer without thoughts begins");
    if (import.is_on("merge_lora"))
        import.note("merge_lora", "trainer export --merge writes the merged model");
    if (const double limit = import.number("save_total_limit", -1); limit > 0)
        import.set("save_total_limit", "save_total_limit", shortest(limit));
}

}  // namespace ringshard::config
