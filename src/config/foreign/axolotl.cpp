#include <algorithm>
#include <array>

#include "../value_text.hpp"
#include "axolotl_keys.hpp"
#include "axolotl_parts.hpp"
#include "reasons.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

void read_plugins(ForeignImport& import) {
    static constexpr std::array known{"cut_cross_entropy", "liger", "kernels", "expert_parallel",
                                      "swanlab"};
    for (const ordered_json& plugin : import.at("plugins")) {
        const std::string name = setting_text(plugin);
        const bool is_known = std::ranges::any_of(known, [&](const char* one) {
            return name.find(std::string("integrations.") + one) != std::string::npos;
        });
        if (!is_known)
            return import.refuse("plugins", format_text("{}: {}", name, reasons::no_plugins));
    }
    if (import.has("plugins"))
        import.idle("plugins", "kernels are built in, and trackers are report_to");
}

void read_rewards(ForeignImport& import) {
    if (import.has("num_labels") && (!learns_rewards(import) || import.text("num_labels") != "1"))
        import.refuse("num_labels",
                      "a reward model has one; labels are learned by `trainer classify`");
    if (!learns_rewards(import)) {
        for (const char* key : {"reward_model", "center_rewards_coefficient"})
            if (import.has(key)) import.idle(key, "it concerns rewards");
        return;
    }
    import.set("reward_model", "method", std::string("reward"));
    if (import.has("center_rewards_coefficient"))
        import.set("center_rewards_coefficient", "center_rewards_coefficient",
                   import.at("center_rewards_coefficient"));
}

// Of single answers.
void read_answers(ForeignImport& import) {
    const bool judges = judges_answers(import);
    for (const auto& [theirs, ours] : {std::pair{"kto_desirable_weight", "desirable_weight"},
                                       {"kto_undesirable_weight", "undesirable_weight"}})
        if (import.has(theirs) && judges)
            import.set(theirs, ours, import.at(theirs));
        else if (import.has(theirs))
            import.idle(theirs, "it concerns rl kto");
    if (!judges) return;
    import.set("rl", "method", std::string("kto"));
    import.set_default("shuffle_dataset", "true");
    import.note("rl",
                "rows are shuffled once (shuffle_dataset), and the baseline is of the rows of a "
                "step");
}

// Reads what else than rows by themselves is learned.
void read_method(ForeignImport& import) {
    read_rewards(import);
    read_answers(import);
    const bool has_pairs = learns_pairs(import) && !learns_rewards(import);
    for (const char* key : {"rl_beta", "dpo_beta"})
        if (import.has(key) && (has_pairs || judges_answers(import)))
            import.set(key, "beta", import.at(key));
        else if (import.has(key))
            import.idle(key, "it concerns preferences");
    const std::string method = import.text("rl");
    const bool has_no_reference = method == "simpo" || method == "orpo";
    if (import.has("orpo_alpha") && method == "orpo")
        import.set("orpo_alpha", "beta", import.at("orpo_alpha"));
    else if (import.has("orpo_alpha"))
        import.idle("orpo_alpha", "it concerns rl orpo");
    for (const char* key : {"cpo_alpha", "simpo_gamma"})
        if (import.has(key) && method == "simpo")
            import.set(key, key, import.at(key));
        else if (import.has(key))
            import.idle(key, "it concerns rl simpo");
    if (import.has("rpo_alpha") && (method == "dpo" || method == "ipo"))
        import.set("rpo_alpha", "rpo_alpha", import.at("rpo_alpha"));
    else if (import.has("rpo_alpha"))
        import.idle("rpo_alpha", "it concerns rl dpo");
    if (!import.has("rl") || judges_answers(import)) return;
    if (method == "false" || method == "none") return import.idle("rl", "rows are learned alone");
    if (!has_pairs) return import.refuse("rl", reasons::fine_tuning_only);
    import.set("rl", "method", std::string(has_no_reference ? "cpo" : "dpo"));
    if (method != "dpo")
        import.set("rl", "loss_type", method);
    else if (const ordered_json& losses = import.at("dpo_loss_type"); losses.is_string())
        import.set("dpo_loss_type", "loss_type", losses);
    else if (losses.is_array() && losses.size() == 1)
        import.set("dpo_loss_type", "loss_type", losses.front());
    else if (!losses.is_null())
        import.refuse("dpo_loss_type", "one loss is learned, and not a sum of several");
}

void translate_axolotl(ForeignImport& import) {
    read_method(import);
    read_axolotl_model(import);
    read_axolotl_data(import);
    read_axolotl_training(import);
    read_plugins(import);
}

}  // namespace

const ForeignTrainer& axolotl() {
    static const ForeignTrainer trainer{
        "axolotl", {axolotl_keys()}, axolotl_defaults(), translate_axolotl};
    return trainer;
}

}  // namespace ringshard::config
