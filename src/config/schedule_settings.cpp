#include "ringshard/config/schedule_settings.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "enum_names.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::config {

using nlohmann::json;

namespace {

constexpr int64_t most_steps = 1'000'000'000'000'000;

std::vector<std::string> keys_of(Schedule schedule) {
    switch (schedule) {
        case Schedule::linear:
        case Schedule::constant:
        case Schedule::constant_with_warmup: return {};
        case Schedule::cosine: return {"num_cycles", "warmup_type"};
        case Schedule::cosine_with_restarts: return {"num_cycles"};
        case Schedule::polynomial: return {"lr_end", "power"};
        case Schedule::inverse_sqrt: return {"timescale"};
        case Schedule::cosine_with_min_lr: return {"num_cycles", "min_lr", "min_lr_rate"};
        case Schedule::cosine_warmup_with_min_lr:
            return {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"};
        case Schedule::warmup_stable_decay:
            return {"num_decay_steps", "num_stable_steps", "warmup_type",
                    "decay_type",      "min_lr_ratio",     "num_cycles"};
        case Schedule::reduce_on_plateau:
            return {"mode",           "factor",   "patience", "threshold",
                    "threshold_mode", "cooldown", "min_lr",   "eps"};
        case Schedule::deepspeed_warmup: return {"warmup_type", "warmup_min_lr"};
        case Schedule::deepspeed_warmup_decay:
            return {"warmup_type", "warmup_min_lr", "total_num_steps"};
        case Schedule::deepspeed_warmup_cosine:
            return {"warmup_type", "warmup_min_ratio", "cos_min_ratio", "total_num_steps"};
    }
    return {};
}

// Reads the values and records the first broken rule.
class ScheduleReader {
public:
    explicit ScheduleReader(json content) : content_(std::move(content)) {}

    bool has(const char* name) const { return !content_.value(name, json()).is_null(); }
    double number(const char* name, double otherwise, bool may_be_0 = true) {
        if (!has(name)) return otherwise;
        const json& value = content_[name];
        const double number = value.is_number() ? value.get<double>() : -1;
        if (std::isfinite(number) && (number > 0 || (number == 0 && may_be_0))) return number;
        complain(format_text("{} = {}: must be a number {}", name, value.dump(),
                             may_be_0 ? "that is not below 0" : "above 0"));
        return otherwise;
    }
    int64_t steps(const char* name, const char* unit = "steps") {
        const json& value = content_[name];
        if (value.is_number_integer() && value.get<int64_t>() >= 0 &&
            value.get<int64_t>() <= most_steps)
            return value.get<int64_t>();
        complain(format_text("{} = {}: must be a whole number of {}", name, value.dump(), unit));
        return 0;
    }
    Course course(const char* name, Course otherwise) {
        if (!has(name)) return otherwise;
        const json& value = content_[name];
        if (value == "linear") return Course::linear;
        if (value == "cosine") return Course::cosine;
        if (value == "1-sqrt") return Course::root;
        complain(format_text("{} = {}: must be linear, cosine or 1-sqrt", name, value.dump()));
        return otherwise;
    }
    // True for the first of two words, which is the default.
    bool is_first(const char* name, const char* first, const char* second) {
        if (!has(name) || content_[name] == first) return true;
        if (content_[name] != second)
            complain(format_text("{} = {}: must be {} or {}", name, content_[name].dump(), first,
                                 second));
        return false;
    }
    Course deepspeed_warmup() {
        if (!has("warmup_type") || content_["warmup_type"] == "log") return Course::logarithm;
        if (content_["warmup_type"] != "linear")
            complain(format_text("warmup_type = {}: must be log or linear",
                                 content_["warmup_type"].dump()));
        return Course::linear;
    }
    void check_keys(Schedule schedule) {
        const std::vector<std::string> known = keys_of(schedule);
        for (const auto& [key, value] : content_.items())
            if (std::ranges::count(known, key) == 0)
                complain(format_text("the schedule {} does not take {}{}", write_value(schedule),
                                     key,
                                     known.empty() ? "; it takes no further settings"
                                                   : "; it takes " + join(known, ", ")));
    }
    void complain(std::string rule) {
        if (!failure_) failure_ = Failure{ExitCode::settings, std::move(rule)};
    }
    const std::optional<Failure>& failure() const { return failure_; }

private:
    json content_;
    std::optional<Failure> failure_;
};

void read_lowest(ScheduleReader& reader, const TrainingSettings& training,
                 ScheduleSettings& settings) {
    const bool as_rate = reader.has("min_lr");
    if (as_rate == reader.has("min_lr_rate"))
        reader.complain(
            format_text("the schedule {} needs min_lr (a learning rate) or min_lr_rate (a share of "
                        "learning_rate), and not both",
                        write_value(training.lr_scheduler_type)));
    settings.lowest_share = reader.number("min_lr_rate", 0);
    if (as_rate && training.learning_rate > 0)
        settings.lowest_share = reader.number("min_lr", 0) / training.learning_rate;
    if (reader.has("warmup_lr_rate")) settings.first_share = reader.number("warmup_lr_rate", 0);
}

void read_deepspeed(ScheduleReader& reader, const TrainingSettings& training,
                    ScheduleSettings& settings) {
    settings.warmup_course = reader.deepspeed_warmup();
    settings.first_share = reader.number("warmup_min_ratio", 0);
    if (reader.has("warmup_min_lr") && training.learning_rate > 0)
        settings.first_share = reader.number("warmup_min_lr", 0) / training.learning_rate;
    settings.lowest_share = reader.number("cos_min_ratio", 0.0001);
    if (!reader.has("total_num_steps")) return;
    settings.total_num_steps = reader.steps("total_num_steps");
    if (training.max_steps > 0 && training.max_steps != *settings.total_num_steps)
        reader.complain(
            format_text("total_num_steps = {}: must be max_steps = {}, or left out: the rate has "
                        "to reach its end with the run",
                        *settings.total_num_steps, training.max_steps));
}

PlateauSettings read_plateau(ScheduleReader& reader) {
    PlateauSettings plateau;
    plateau.wants_least = reader.is_first("mode", "min", "max");
    plateau.factor = reader.number("factor", plateau.factor);
    if (plateau.factor >= 1)
        reader.complain(format_text("factor = {}: must be below 1", plateau.factor));
    if (reader.has("patience")) plateau.patience = reader.steps("patience", "evaluations");
    plateau.threshold = reader.number("threshold", plateau.threshold);
    plateau.is_relative = reader.is_first("threshold_mode", "rel", "abs");
    if (reader.has("cooldown")) plateau.cooldown = reader.steps("cooldown", "evaluations");
    plateau.lowest_rate = reader.number("min_lr", plateau.lowest_rate);
    plateau.least_change = reader.number("eps", plateau.least_change);
    return plateau;
}

void read_stable_decay(ScheduleReader& reader, ScheduleSettings& settings) {
    if (reader.has("num_decay_steps"))
        settings.num_decay_steps = reader.steps("num_decay_steps");
    else
        reader.complain(
            "the schedule warmup_stable_decay needs num_decay_steps, the steps at its end in which "
            "the learning rate falls");
    if (reader.has("num_stable_steps"))
        settings.num_stable_steps = reader.steps("num_stable_steps");
    settings.warmup_course = reader.course("warmup_type", Course::linear);
    settings.decay_course = reader.course("decay_type", Course::cosine);
    settings.lowest_share = reader.number("min_lr_ratio", 0);
}

}  // namespace

bool is_of_deepspeed(Schedule schedule) {
    return schedule == Schedule::deepspeed_warmup || schedule == Schedule::deepspeed_warmup_decay ||
           schedule == Schedule::deepspeed_warmup_cosine;
}

Expected<ScheduleSettings> read_schedule_settings(const TrainingSettings& training) {
    const Schedule schedule = training.lr_scheduler_type;
    const std::string& text = training.lr_scheduler_kwargs;
    auto content = parse_json<json>(text.empty() || text == "null" ? "{}" : text);
    if (!content || !content.value().is_object())
        return Failure{ExitCode::settings, "lr_scheduler_kwargs must be a JSON object"};
    ScheduleReader reader(std::move(content.value()));
    reader.check_keys(schedule);
    ScheduleSettings settings;
    const double usual_cycles = schedule == Schedule::cosine_with_restarts ? 1.0 : 0.5;
    settings.num_cycles = reader.number("num_cycles", usual_cycles);
    settings.power = reader.number("power", settings.power);
    settings.last_rate = reader.number("lr_end", settings.last_rate);
    if (schedule == Schedule::polynomial && training.learning_rate <= settings.last_rate)
        reader.complain(format_text("lr_end = {}: must be below learning_rate = {}",
                                    settings.last_rate, training.learning_rate));
    if (reader.has("timescale")) settings.timescale = reader.number("timescale", 1, false);
    if (schedule == Schedule::cosine && !reader.is_first("warmup_type", "linear", "quadratic"))
        settings.warmup_course = Course::square;
    if (schedule == Schedule::cosine_with_min_lr || schedule == Schedule::cosine_warmup_with_min_lr)
        read_lowest(reader, training, settings);
    if (schedule == Schedule::warmup_stable_decay) read_stable_decay(reader, settings);
    if (schedule == Schedule::reduce_on_plateau) settings.plateau = read_plateau(reader);
    if (is_of_deepspeed(schedule)) read_deepspeed(reader, training, settings);
    if (reader.failure()) return *reader.failure();
    return settings;
}

}  // namespace ringshard::config
