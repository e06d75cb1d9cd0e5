#include "ringshard/config/settings.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/error.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "value_text.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

Origin Settings::origin_of(const std::string& name) const {
    const auto found = given.find(name);
    return found == given.end() ? Origin{} : found->second.origin;
}

Settings Settings::on_gpus() const {
    Settings settings = *this;
    TrainingSettings& training = settings.values.training;
    const bool is_open = !training.activation_policy && !given.contains("gradient_checkpointing");
    if (is_open && !training.activation_offloading && !training.cuda_graphs)
        training.activation_policy = ActivationPolicies::automatic();
    return settings;
}

std::string Settings::to_text() const {
    ordered_json all = ordered_json::object();
    for (const auto& [name, setting] : given)
        all[name] = {setting.text, static_cast<int>(setting.origin.strength), setting.origin.place};
    // Origins hold file names, which may be any bytes.
    return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

namespace {

void give(Settings& settings, const std::string& name, const Settings::Given& given,
          const OptionTable& table) {
    const Option* option = table.find(name);
    RINGSHARD_CHECK(option != nullptr, "{}", name);
    if (option->treatment == Treatment::served) {
        const Rule broken = option->read(given.text, settings.values);
        RINGSHARD_CHECK(!broken, "{} = {} {}", name, given.text, *broken);
    }
    settings.given[name] = given;
}

}  // namespace

Settings Settings::with(const std::string& name, const std::string& text,
                        const OptionTable& table) const {
    Settings settings = *this;
    give(settings, name, {text, {Strength::command_line, "a suggestion"}}, table);
    return settings;
}

Settings Settings::on_ranks(int64_t world, const OptionTable& table) const {
    const ParallelSettings& parallel = values.parallel;
    const auto& rows = values.training.train_batch_size;
    if (!rows || given.contains("gradient_accumulation_steps")) return *this;
    const int64_t sharing = parallel.cp_size.value_or(1) * parallel.sp_size.value_or(1);
    const int64_t at_once = values.training.per_device_train_batch_size * (world / sharing);
    if (world % sharing != 0 || at_once == 0 || *rows % at_once != 0) return *this;
    Settings settings = with("gradient_accumulation_steps", std::to_string(*rows / at_once), table);
    settings.given["gradient_accumulation_steps"].origin = {
        origin_of("train_batch_size").strength,
        format_text("train_batch_size {} over {} ranks", *rows, world)};
    return settings;
}

Settings Settings::from_text(const std::string& text, const OptionTable& table) {
    Settings settings;
    const ordered_json entries = parse_json<ordered_json>(text).value();
    for (const auto& [name, entry] : entries.items()) {
        const Given given{entry.at(0),
                          {static_cast<Strength>(entry.at(1).get<int>()), entry.at(2)}};
        give(settings, name, given, table);
    }
    return settings;
}

namespace {

// Formats a value as YAML, quoted if YAML would read it as another type.
std::string yaml_value(const Option& option, const std::string& value) {
    const bool is_plain_kind =
        (option.shape != Shape::word || !option.choices.empty() || value == "null") &&
        (option.shape != Shape::json || value == "null" || parse_json<ordered_json>(value));
    return is_plain_kind ? value : ordered_json(value).dump();
}

// Returns true if print_yaml() covers the value by the profile's name. It prints a DeepSpeed file's
// values one by one.
bool stands_in_profile(const Origin& origin, const Settings& settings) {
    const auto profile = settings.given.find("profile");
    return origin.place.starts_with("profile ") ||
           (profile != settings.given.end() &&
            origin.place.starts_with(profile->second.text + ":"));
}

std::string value_of(const Option& option, const Settings& settings) {
    if (option.treatment == Treatment::served) return option.write(settings.values);
    const auto found = settings.given.find(option.name);
    return found == settings.given.end() ? option.default_text : found->second.text;
}

}  // namespace

std::string print_yaml(const Settings& settings, const OptionTable& table) {
    std::string lines;
    std::string group;
    for (const Option& option : table.options()) {
        const bool is_given = settings.given.contains(option.name);
        if (option.treatment == Treatment::refused) continue;
        if (option.treatment == Treatment::accepted && !is_given) continue;
        if (option.group != group) {
            group = option.group;
            lines += format_text("{}# {}\n", lines.empty() ? "" : "\n", group);
        }
        const Origin origin = settings.origin_of(option.name);
        const std::string line =
            format_text("{}: {}", option.name, yaml_value(option, value_of(option, settings)));
        const std::string padding(line.size() < 44 ? 44 - line.size() : 1, ' ');
        const bool has_effect = option.treatment == Treatment::served;
        const bool is_said = origin.strength >= Strength::config_file ||
                             (is_given && !stands_in_profile(origin, settings));
        const bool is_live = has_effect && is_said;
        lines += format_text("{}{}{}{}{}{}\n", is_live ? "" : "# ", line, padding,
                             is_live ? "  # " : "# ", origin.place,
                             has_effect ? "" : ": no effect, " + option.reason);
    }
    return lines;
}

std::string print_given(const Settings& settings, const OptionTable& table) {
    std::string lines;
    for (const Option& option : table.options()) {
        const auto given = settings.given.find(option.name);
        if (given == settings.given.end() || option.treatment != Treatment::served) continue;
        const std::string line =
            format_text("{}: {}", option.name, yaml_value(option, value_of(option, settings)));
        const std::string padding(line.size() < 44 ? 44 - line.size() : 1, ' ');
        lines += format_text("{}{}  # {}\n", line, padding, given->second.origin.place);
    }
    return lines;
}

std::string print_json(const Settings& settings, const OptionTable& table) {
    ordered_json all = ordered_json::object();
    for (const Option& option : table.options()) {
        const bool is_given = settings.given.contains(option.name);
        if (option.treatment == Treatment::refused) continue;
        if (option.treatment == Treatment::accepted && !is_given) continue;
        const std::string value = value_of(option, settings);
        ordered_json typed = value;
        const bool is_structured =
            option.shape != Shape::word || value == "null" || value == "true" || value == "false";
        if (is_structured)
            if (auto parsed = parse_json<ordered_json>(value)) typed = std::move(parsed.value());
        all[option.name] = {{"value", typed},
                            {"origin", settings.origin_of(option.name).place},
                            {"given", is_given}};
        if (option.treatment != Treatment::served) all[option.name]["has_effect"] = false;
    }
    return all.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace ringshard::config
