#include <cmath>

#include "../value_text.hpp"
#include "axolotl_parts.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Reads the rows of a step. axolotl's batch_size is that of one rank.
void read_axolotl_batch(ForeignImport& import) {
    const double rows = import.number("batch_size", 0);
    import.refuse_beside("batch_size", "gradient_accumulation_steps");
    if (rows <= 0 || import.has("gradient_accumulation_steps")) return;
    const double at_once = import.number("micro_batch_size", 1);
    import.set("batch_size", "gradient_accumulation_steps",
               shortest(std::max(1.0, std::floor(rows / at_once))));
}

std::vector<std::string> saved_modules(const ForeignImport& import) {
    const ordered_json& given = import.at("lora_modules_to_save");
    std::vector<std::string> modules;
    for (const ordered_json& module : given.is_array() ? given : ordered_json::array({given}))
        if (module.is_string() && !module.empty()) modules.push_back(module);
    return modules;
}

// Whether an embedding, a head or another whole module is trained.
bool trains_embeddings(const ForeignImport& import) {
    if (!import.has("adapter")) return true;
    const std::string targets = setting_text(import.at("lora_target_modules"));
    return !saved_modules(import).empty() || targets.find("embed_tokens") != std::string::npos ||
           targets.find("lm_head") != std::string::npos;
}

// Embedding and head, and modules that are saved beside an adapter, have a rate of their own, and
// then no decay.
void read_axolotl_embeddings(ForeignImport& import) {
    import.refuse_beside("embedding_lr", "embedding_lr_scale");
    for (const char* key : {"embedding_lr_scale", "embedding_lr"}) {
        const double given = import.number(key, -1);
        if (asks_for_nothing(import.at(key))) continue;
        if (given <= 0) {
            import.refuse(key, "it must be a number above 0");
            continue;
        }
        if (!trains_embeddings(import)) {
            import.idle(key, "no embedding is trained");
            continue;
        }
        const bool is_rate = std::string_view(key) == "embedding_lr";
        const double rate = import.number("learning_rate", 0);
        if (is_rate && rate <= 0) {
            import.refuse(key, "it is taken as a part of learning_rate, which is not there");
            continue;
        }
        std::string pattern = "embed_tokens|lm_head";
        for (const std::string& module : saved_modules(import))
            if (import.has("adapter") && pattern.find(module) == std::string::npos)
                pattern += "|" + module;
        const double factor = is_rate ? given / rate : given;
        import.note(key,
                    format_text("is {} of the learning rate, whichever that is", shortest(factor)));
        import.set(key, "lr_groups",
                   ordered_json::array(
                       {{ {"pattern", pattern},
                          {"lr", factor},
                          { "weight_decay",
                            0 } }}));
    }
}

// A share is rounded down where the steps are known, and 2 steps are taken in place of 1.
void read_axolotl_warmup(ForeignImport& import) {
    const char* key = import.has("warmup_steps") ? "warmup_steps" : "warmup_ratio";
    double warmup = import.number(key, 0.03);
    const double steps = import.number("max_steps", 0);
    if (!import.has("warmup_steps") && steps > 0) warmup = std::floor(warmup * steps);
    if (warmup == 1) warmup = 2;
    if (import.has(key))
        import.set(key, "warmup_steps", shortest(warmup));
    else
        import.set_default("warmup_steps", shortest(warmup));
}

void read_axolotl_schedule(ForeignImport& import) {
    read_axolotl_warmup(import);
    const std::string schedule = import.text("lr_scheduler", "cosine");
    const double lowest = import.number("cosine_min_lr_ratio", 0);
    const bool is_quadratic = import.is_on("lr_quadratic_warmup");
    if (is_quadratic && schedule == "cosine") {
        import.set("lr_quadratic_warmup", "lr_scheduler_type", std::string("cosine"));
        import.set("lr_quadratic_warmup", "lr_scheduler_kwargs",
                   ordered_json{
                       { "warmup_type",
                         "quadratic" }});
        if (lowest > 0) import.idle("cosine_min_lr_ratio", "axolotl goes by lr_quadratic_warmup");
        return;
    }
    if (is_quadratic)
        import.idle("lr_quadratic_warmup", "axolotl reads it beside lr_scheduler cosine");
    if (schedule != "cosine" || lowest <= 0) {
        if (import.has("lr_scheduler"))
            import.set("lr_scheduler", "lr_scheduler_type", import.at("lr_scheduler"));
        if (import.has("cosine_min_lr_ratio"))
            import.idle("cosine_min_lr_ratio", "axolotl reads it beside lr_scheduler cosine");
        return;
    }
    if (import.number("cosine_constant_lr_ratio", 0) > 0)
        import.refuse("cosine_constant_lr_ratio",
                      "use lr_scheduler_type warmup_stable_decay, which has such a phase");
    import.set("cosine_min_lr_ratio", "lr_scheduler_type", std::string("cosine_with_min_lr"));
    import.set("cosine_min_lr_ratio", "lr_scheduler_kwargs",
               ordered_json{
                   { "min_lr_rate",
                     lowest }});
}

// Returns the steps between two events, as a share of all steps below 1; 0: the recipe names none.
double axolotl_steps(const ForeignImport& import, const char* count, const char* steps) {
    const double given = import.number(steps, 0);
    const double of_epoch = import.number(count, 0);
    if (of_epoch <= 0) return given;
    const double share = 1.0 / (of_epoch * import.number("num_epochs", 1));
    return share < 1 ? share : given;
}

void read_axolotl_saves(ForeignImport& import, double steps) {
    import.set_default("save_total_limit", "4");
    if (import.has("save_strategy"))
        import.set("save_strategy", "save_strategy", import.at("save_strategy"));
    else
        import.set_default("save_strategy", steps > 0 ? "steps" : "epoch");
    if (steps > 0)
        import.set(import.has("save_steps") ? "save_steps" : "saves_per_epoch", "save_steps",
                   shortest(steps));
}

// Reads when evaluations take place; true: there is something to evaluate on.
bool read_axolotl_evaluations(ForeignImport& import, double steps) {
    const bool has_data = import.number("val_set_size", 0) > 0 || import.has("test_datasets");
    if (!has_data) {
        for (const char* key : {"evals_per_epoch", "eval_steps", "eval_strategy"})
            if (import.has(key)) import.idle(key, "there is nothing to evaluate on");
        return false;
    }
    if (steps > 0) {
        import.set(import.has("eval_steps") ? "eval_steps" : "evals_per_epoch", "eval_steps",
                   shortest(steps));
        import.set_default("eval_strategy", "steps");
    } else if (import.has("evals_per_epoch")) {
        import.set("evals_per_epoch", "eval_strategy", std::string("epoch"));
    }
    for (const char* key : {"eval_strategy", "evaluation_strategy"})
        if (import.has(key)) import.set(key, "eval_strategy", import.at(key));
    if (steps > 0 || import.has("eval_strategy")) import.set_default("eval_on_start", "true");
    return true;
}

// A strategy other than steps contradicts a number of steps.
void refuse_strategy_beside(ForeignImport& import, const char* strategy, const char* steps) {
    if (import.text(strategy, "steps") != "steps" && import.number(steps, 0) > 0)
        import.refuse(strategy,
                      format_text("axolotl refuses it beside {}; leave one of them out", steps));
}

void refuse_other_events(ForeignImport& import) {
    import.refuse_beside("saves_per_epoch", "save_steps");
    refuse_strategy_beside(import, "save_strategy", "save_steps");
    import.refuse_beside("evals_per_epoch", "eval_steps");
    for (const char* strategy : {"eval_strategy", "evaluation_strategy"})
        for (const char* steps : {"eval_steps", "evals_per_epoch"})
            refuse_strategy_beside(import, strategy, steps);
}

void read_axolotl_events(ForeignImport& import) {
    refuse_other_events(import);
    const double save = axolotl_steps(import, "saves_per_epoch", "save_steps");
    const double evaluate = axolotl_steps(import, "evals_per_epoch", "eval_steps");
    read_axolotl_saves(import, save);
    const bool evaluates = read_axolotl_evaluations(import, evaluate);
    const bool stops_early = import.number("early_stopping_patience", 0) > 0;
    const bool is_asked = import.is_on("load_best_model_at_end") || stops_early;
    const bool keeps_best =
        evaluates && is_asked && save > 0 && evaluate > 0 && std::fmod(save, evaluate) == 0;
    if (import.has("load_best_model_at_end"))
        import.set("load_best_model_at_end", "load_best_model_at_end",
                   std::string(keeps_best ? "true" : "false"));
    else if (keeps_best)
        import.set_default("load_best_model_at_end", "true");
    if (!stops_early) return;
    if (!evaluates)
        return import.idle("early_stopping_patience", "there is nothing to evaluate on");
    import.set("early_stopping_patience", "early_stopping_patience",
               import.at("early_stopping_patience"));
    if (!import.has("metric_for_best_model")) import.set_default("metric_for_best_model", "loss");
}

// A project's name switches wandb on, as in axolotl.
void read_axolotl_trackers(ForeignImport& import) {
    const auto is_named = [&](const char* key) { return !asks_for_nothing(import.at(key)); };
    ordered_json trackers = ordered_json::array();
    if (import.is_on("use_wandb") || (is_named("wandb_project") && !import.has("use_wandb")))
        trackers.push_back("wandb");
    if (import.is_on("use_mlflow") || is_named("mlflow_experiment_name"))
        trackers.push_back("mlflow");
    if (import.is_on("use_trackio") || is_named("trackio_project_name"))
        trackers.push_back("trackio");
    if (import.is_on("use_tensorboard")) trackers.push_back("tensorboard");
    std::string first;
    for (const char* key : {"use_wandb", "wandb_project", "use_mlflow", "mlflow_experiment_name",
                            "use_trackio", "trackio_project_name", "use_tensorboard"}) {
        if (is_named(key) && first.empty()) first = key;
        if (import.has(key) && !is_named(key)) import.idle(key, "it asks for nothing");
    }
    if (!trackers.empty()) import.set(first, "report_to", trackers);
    for (const char* key : {"wandb_project", "mlflow_experiment_name", "trackio_project_name"})
        if (is_named(key)) return import.set(key, "project", import.at(key));
}

void read_axolotl_deepspeed(ForeignImport& import) {
    const std::string file = import.text("deepspeed");
    const std::string name = std::filesystem::path(file).stem().string();
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored) || file.starts_with('{') ||
        !name.starts_with("zero") || name.size() < 5)
        return import.set("deepspeed", "deepspeed", import.at("deepspeed"));
    const std::string profile = name.substr(0, 5);
    import.set("deepspeed", "profile", profile);
    import.note("deepspeed", format_text("is not here: the built-in profile {} is used", profile));
}

// Returns true if FSDP itself recomputes activations.
bool fsdp_recomputes(const ForeignImport& import) {
    return import.is_on("fsdp_config.activation_checkpointing") ||
           import.is_on("fsdp_config.fsdp_activation_checkpointing");
}

void read_axolotl_sharding(ForeignImport& import) {
    if (import.has("deepspeed")) read_axolotl_deepspeed(import);
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

void read_axolotl_memory(ForeignImport& import) {
    const std::string checkpointing = import.text("gradient_checkpointing");
    if (fsdp_recomputes(import)) {
        if (!checkpointing.empty())
            import.idle("gradient_checkpointing", "fsdp_config has activation_checkpointing");
    } else if (checkpointing.starts_with("offload")) {
        import.set("gradient_checkpointing", "gradient_checkpointing", std::string("true"));
        import.set("gradient_checkpointing", "activation_offloading", std::string("true"));
    } else if (!checkpointing.empty()) {
        import.set("gradient_checkpointing", "gradient_checkpointing", checkpointing);
    }
    if (!asks_for_nothing(import.at("activation_offloading")))
        import.set("activation_offloading", "activation_offloading", std::string("true"));
}

}  // namespace

void read_axolotl_training(ForeignImport& import) {
    read_axolotl_batch(import);
    read_axolotl_embeddings(import);
    read_axolotl_schedule(import);
    read_axolotl_events(import);
    read_axolotl_trackers(import);
    read_axolotl_sharding(import);
    read_axolotl_memory(import);
    if (import.has("resume_from_checkpoint"))
        import.set("resume_from_checkpoint", "resume_from_checkpoint",
                   import.at("resume_from_checkpoint"));
    if (!import.has("hub_model_id")) return;
    import.set("hub_model_id", "hub_model_id", import.at("hub_model_id"));
    import.set("hub_model_id", "push_to_hub", std::string("true"));
}

}  // namespace ringshard::config
