#include "ringshard/config/optimizer_settings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "enum_names.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

using nlohmann::json;

namespace {

Failure broken(const std::string& rule) { return {ExitCode::settings, rule}; }

// Reads the arguments of one optimizer from "key=value,key=value".
class ArgumentReader {
public:
    // `known`: the arguments of this optimizer.
    ArgumentReader(const std::string& text, const std::vector<std::string>& known) {
        if (text.empty()) return;
        for (const std::string& entry : split(text, ',')) {
            const size_t sign = entry.find('=');
            const std::string key(trim(entry.substr(0, sign)));
            if (sign == std::string::npos)
                complain(format_text("\"{}\" is not key=value", entry));
            else if (std::ranges::find(known, key) == known.end())
                complain(known.empty()
                             ? format_text("{}: this optim has no arguments", key)
                             : format_text("{}: this optim has {}", key, join(known, ", ")));
            else if (!values_.emplace(key, trim(entry.substr(sign + 1))).second)
                complain(format_text("{}: is given twice; leave one of them out", key));
        }
    }

    void number(const char* key, double& value, double end) {
        const auto found = values_.find(key);
        if (found == values_.end()) return;
        const std::optional<double> read = read_number(found->second);
        if (read && *read >= 0 && *read < end)
            value = *read;
        else
            complain(format_text("{} = {}: must be a number from 0 to below {}", key, found->second,
                                 end));
    }
    void truth(const char* key, bool& value) {
        const auto found = values_.find(key);
        if (found == values_.end()) return;
        const std::string word = lower_case(found->second);
        if (word != "true" && word != "false")
            complain(format_text("{} = {}: must be True or False", key, found->second));
        value = word == "true";
    }
    void scaling(const char* key, MuonRate& value) {
        const auto found = values_.find(key);
        if (found == values_.end()) return;
        if (found->second != "original" && found->second != "match_rms_adamw")
            complain(
                format_text("{} = {}: must be original or match_rms_adamw", key, found->second));
        value = found->second == "original" ? MuonRate::original : MuonRate::match_rms_adamw;
    }
    void complain(std::string rule) {
        if (!failure_) failure_ = broken(std::move(rule));
    }
    const std::optional<Failure>& failure() const { return failure_; }

private:
    static std::optional<double> read_number(const std::string& text) {
        const auto value = parse_json<json>(text);
        if (!value || !value.value().is_number()) return std::nullopt;
        return value.value().get<double>();
    }

    std::map<std::string, std::string> values_;
    std::optional<Failure> failure_;
};

// Optimizers that are not here have none.
const std::map<Optimizer, std::vector<std::string>> arguments{
    {Optimizer::adagrad, {"lr_decay", "eps"}},
    {Optimizer::adamw, {"decoupled_weight_decay"}},
    {Optimizer::muon, {"momentum", "nesterov", "ns_steps", "adjust_lr_fn"}},
    {Optimizer::rmsprop, {"alpha", "eps"}},
    {Optimizer::schedule_free_adamw, {"r", "weight_lr_power"}},
    {Optimizer::schedule_free_sgd, {"r", "weight_lr_power"}},
    {Optimizer::sgd, {"momentum", "dampening", "nesterov"}}};

std::vector<std::string> arguments_of(Optimizer optimizer) {
    const auto found = arguments.find(optimizer);
    return found == arguments.end() ? std::vector<std::string>() : found->second;
}

}  // namespace

namespace {

const std::map<Optimizer, std::vector<std::string>> unused{
    {Optimizer::adafactor, {"adam_beta1", "adam_beta2", "adam_epsilon"}},
    {Optimizer::adagrad, {"adam_beta1", "adam_beta2", "adam_epsilon"}},
    {Optimizer::lion, {"adam_epsilon"}},
    {Optimizer::lion_8bit, {"adam_epsilon"}},
    {Optimizer::rmsprop, {"adam_beta1", "adam_beta2", "adam_epsilon"}},
    {Optimizer::schedule_free_sgd, {"adam_beta1", "adam_beta2", "adam_epsilon"}},
    {Optimizer::sgd, {"adam_beta1", "adam_beta2", "adam_epsilon"}}};

}  // namespace

std::vector<std::string> settings_without_use(const TrainingSettings& training) {
    const auto found = unused.find(training.optim);
    const bool is_alone = training.lr_groups.find("\"optim\"") == std::string::npos;
    return found == unused.end() || !is_alone ? std::vector<std::string>() : found->second;
}

Expected<OptimizerArguments> read_optim_args(const TrainingSettings& training,
                                             Optimizer optimizer) {
    OptimizerArguments values;
    if (optimizer == Optimizer::muon) values = {.momentum = 0.95, .nesterov = true};
    if (optimizer == Optimizer::adagrad) values.eps = 1e-10;
    ArgumentReader reader(optimizer == training.optim ? training.optim_args : "",
                          arguments_of(optimizer));
    auto steps = static_cast<double>(values.ns_steps);
    reader.number("momentum", values.momentum, 1);
    reader.number("dampening", values.dampening, 1);
    reader.truth("nesterov", values.nesterov);
    reader.number("ns_steps", steps, 100);
    reader.number("alpha", values.alpha, 1);
    reader.number("eps", values.eps, 1);
    reader.number("lr_decay", values.lr_decay, 1);
    reader.number("r", values.r, 100);
    reader.number("weight_lr_power", values.weight_lr_power, 100);
    reader.truth("decoupled_weight_decay", values.decoupled_weight_decay);
    reader.scaling("adjust_lr_fn", values.adjust_lr_fn);
    values.ns_steps = std::llround(steps);
    if (static_cast<double>(values.ns_steps) != steps || values.ns_steps < 1)
        reader.complain(format_text("ns_steps = {}: must be a whole number above 0", steps));
    if (optimizer == Optimizer::sgd && values.nesterov &&
        (values.momentum == 0 || values.dampening != 0))
        reader.complain("nesterov: needs a momentum above 0 and no dampening, as in PyTorch");
    if (reader.failure()) return *reader.failure();
    return values;
}

namespace {

// Reads one entry, an object, of lr_groups.
Expected<UpdateRule> read_rule(const json& entry) {
    static const std::set<std::string> known{"pattern", "lr", "weight_decay", "betas", "optim"};
    if (!entry.is_object() || !entry.contains("pattern") || !entry["pattern"].is_string())
        return broken("each entry is an object with a \"pattern\" of names");
    for (const auto& [key, value] : entry.items())
        if (!known.contains(key))
            return broken(
                format_text("{}: an entry has pattern, lr, weight_decay, betas, optim", key));
    if (entry.size() == 1)
        return broken(
            format_text("pattern {}: the entry sets nothing; give it lr, weight_decay, "
                        "betas or optim (lr 1 keeps the learning rate as it is), or take "
                        "it out",
                        entry["pattern"].dump()));
    UpdateRule rule{entry["pattern"].get<std::string>()};
    const auto number = [&](const char* key) -> std::optional<double> {
        if (!entry[key].is_number() || entry[key].get<double>() < 0) return std::nullopt;
        return entry[key].get<double>();
    };
    if (entry.contains("lr")) {
        const auto rate = number("lr");
        if (!rate) return broken("lr: must be a factor of the learning rate, not below 0");
        rule.rate = *rate;
    }
    if (entry.contains("weight_decay")) {
        rule.weight_decay = number("weight_decay");
        if (!rule.weight_decay) return broken("weight_decay: must be a number not below 0");
    }
    if (entry.contains("betas")) {
        const json& betas = entry["betas"];
        const auto is_beta = [](const json& beta) {
            return beta.is_number() && beta.get<double>() >= 0 && beta.get<double>() < 1;
        };
        if (!betas.is_array() || betas.size() != 2 || !is_beta(betas[0]) || !is_beta(betas[1]))
            return broken("betas: must be two numbers from 0 to below 1");
        rule.beta1 = betas[0].get<double>();
        rule.beta2 = betas[1].get<double>();
    }
    if (entry.contains("optim")) {
        for (const auto& [name, value] : EnumNames<Optimizer>::table)
            if (entry["optim"] == name) rule.optim = value;
        if (!rule.optim)
            return broken(format_text("optim: {} is not an optimizer of the setting optim",
                                      entry["optim"].dump()));
    }
    return rule;
}

}  // namespace

Expected<std::vector<UpdateRule>> read_lr_groups(const TrainingSettings& training) {
    std::vector<UpdateRule> rules;
    if (training.lr_groups.empty()) return rules;
    const auto content = parse_json<json>(training.lr_groups);
    if (!content || !content.value().is_array())
        return broken(
            "must be a list of entries, such as "
            "[{\"pattern\": \"embed_tokens\", \"lr\": 0.1}]");
    for (const json& entry : content.value()) {
        auto rule = read_rule(entry);
        if (!rule) return rule.failure();
        rules.push_back(std::move(rule).value());
    }
    return rules;
}

}  // namespace ringshard::config
