#include <algorithm>
#include <cmath>

#include "../value_text.hpp"
#include "automodel_parts.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

void read_adam(ForeignImport& import) {
    const std::string kind = last_word(import.text("optimizer._target_", "AdamW"));
    const double decay = import.number("optimizer.weight_decay", kind == "AdamW" ? 0.01 : 0);
    const bool couples = kind == "Adam" && decay > 0;
    if (kind != "Adam" && kind != "AdamW" && kind != "FusedAdam" && kind != "FlashAdamW")
        import.refuse("optimizer._target_", "use torch.optim.AdamW");
    else if (couples)
        import.set("optimizer._target_", "optim_args", std::string("decoupled_weight_decay=False"));
    import.set(
        import.has("optimizer.weight_decay") ? "optimizer.weight_decay" : "optimizer._target_",
        "weight_decay", shortest(decay));
    if (import.has("optimizer.adam_w_mode") && !import.is_on("optimizer.adam_w_mode") && decay > 0)
        import.refuse("optimizer.adam_w_mode", "the decay is decoupled");
    const ordered_json& betas = import.at("optimizer.betas");
    if (betas.is_array() && betas.size() == 2) {
        import.set("optimizer.betas", "adam_beta1", betas[0]);
        import.set("optimizer.betas", "adam_beta2", betas[1]);
    }
}

// The schedule of Automodel: the rate rises from a tenth, and falls to a hundredth, of the highest.
struct AutomodelSchedule {
    double warmup;  // steps; below 1: a share of all steps
    double first;   // shares of the highest rate
    double lowest;
    double cycles;  // of the cosine, up to the last step
};

double share_of_rate(const ForeignImport& import, const char* key, double otherwise) {
    const double rate = import.number("optimizer.lr", 0);
    const double given = import.number(key, -1);
    return given < 0 || rate <= 0 ? otherwise : given / rate;
}

// The cosine here begins one step later and ends at the last step; `cycles` makes up for it.
AutomodelSchedule automodel_schedule(const ForeignImport& import) {
    const double steps = import.number("step_scheduler.max_steps", 0);
    const double given = import.number("lr_scheduler.lr_warmup_steps", -1);
    const double usual = steps > 0 ? std::min(1000.0, std::floor(steps / 10)) : 0.1;
    AutomodelSchedule schedule{.warmup = given < 0 ? usual : given,
                               .first = share_of_rate(import, "lr_scheduler.init_lr", 0.1),
                               .lowest = share_of_rate(import, "lr_scheduler.min_lr", 0.01),
                               .cycles = 0.5};
    if (schedule.warmup == 0) return schedule;
    const double decay = import.number("lr_scheduler.lr_decay_steps", steps);
    if (steps > schedule.warmup && decay >= steps)
        schedule.cycles = 0.5 * (steps - schedule.warmup - 1) / (decay - schedule.warmup);
    if (schedule.warmup >= 1) schedule.warmup += 1;
    return schedule;
}

void read_schedule_without_warmup(ForeignImport& import, const std::string& key, bool is_constant,
                                  const AutomodelSchedule& schedule) {
    import.set(key, "warmup_steps", std::string("0"));
    import.set(key, "lr_scheduler_type",
               std::string(is_constant ? "constant" : "cosine_with_min_lr"));
    if (!is_constant)
        import.set(key, "lr_scheduler_kwargs", ordered_json{{ "min_lr_rate", schedule.lowest }});
}

// transformers' polynomial of power 1; its warm-up begins at 0.
void read_linear_schedule(ForeignImport& import, const std::string& key) {
    if (import.has("lr_scheduler.lr_decay_steps"))
        return import.refuse("lr_scheduler.lr_decay_steps", "the rate falls up to the last step");
    const AutomodelSchedule schedule = automodel_schedule(import);
    const double rate = import.number("optimizer.lr", 0);
    import.set(key, "lr_scheduler_type", std::string("polynomial"));
    import.set(key, "lr_scheduler_kwargs",
               ordered_json{{"lr_end", schedule.lowest * rate},
                            { "power",
                              1.0 }});
    import.set(import.has("lr_scheduler.lr_warmup_steps") ? "lr_scheduler.lr_warmup_steps" : key,
               "warmup_steps",
               shortest(schedule.warmup > 1 ? schedule.warmup - 1 : schedule.warmup));
    import.note("lr_scheduler", "the warm-up begins at 0");
}

void read_automodel_schedule(ForeignImport& import) {
    if (!import.has("lr_scheduler")) return;
    const std::string style = import.text("lr_scheduler.lr_decay_style", "cosine");
    const std::string key =
        import.has("lr_scheduler.lr_decay_style") ? "lr_scheduler.lr_decay_style" : "lr_scheduler";
    const bool is_constant = style == "constant";
    if (style == "linear") return read_linear_schedule(import, key);
    if (style != "cosine" && !is_constant)
        return import.refuse(key, "cosine, linear and constant are served");
    const double steps = import.number("step_scheduler.max_steps", 0);
    const bool has_decay = import.has("lr_scheduler.lr_decay_steps");
    if (has_decay && import.number("lr_scheduler.lr_decay_steps", 0) != steps &&
        (steps <= 0 || import.number("lr_scheduler.lr_decay_steps", 0) < steps ||
         import.number("lr_scheduler.lr_warmup_steps", -1) == 0))
        return import.refuse("lr_scheduler.lr_decay_steps",
                             "beside max_steps and a warm-up, a cosine may fall over more steps "
                             "than are trained");
    const AutomodelSchedule schedule = automodel_schedule(import);
    if (schedule.warmup == 0)
        return read_schedule_without_warmup(import, key, is_constant, schedule);
    import.set(import.has("lr_scheduler.lr_warmup_steps") ? "lr_scheduler.lr_warmup_steps" : key,
               "warmup_steps", shortest(schedule.warmup));
    import.set(key, "lr_scheduler_type", std::string("cosine_warmup_with_min_lr"));
    ordered_json arguments = {{"min_lr_rate", is_constant ? 1.0 : schedule.lowest},
                              {"warmup_lr_rate", schedule.first}};
    if (schedule.cycles != 0.5 && !is_constant) arguments["num_cycles"] = schedule.cycles;
    import.set(key, "lr_scheduler_kwargs", arguments);
}

}  // namespace

void read_automodel_optimizer(ForeignImport& import) {
    read_adam(import);
    read_automodel_schedule(import);
}

}  // namespace ringshard::config
