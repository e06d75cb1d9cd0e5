#include "ringshard/config/adapter_runs.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "resolver.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/sweep_file.hpp"
#include "settle_adapters.hpp"
#include "validate.hpp"
#include "value_text.hpp"
#include "yaml_value.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

constexpr std::array own_settings{"adapter_name_or_path",
                                  "lora_r",
                                  "lora_alpha",
                                  "lora_dropout",
                                  "lora_target_modules",
                                  "lora_target_parameters",
                                  "lora_modules_to_save",
                                  "exclude_modules",
                                  "layers_to_transform",
                                  "layers_pattern",
                                  "rank_pattern",
                                  "alpha_pattern",
                                  "trainable_token_indices",
                                  "use_rslora",
                                  "use_dora",
                                  "lora_bias",
                                  "init_lora_weights",
                                  "bias",
                                  "learning_rate",
                                  "loraplus_lr_ratio",
                                  "lr_scheduler_type",
                                  "lr_scheduler_kwargs",
                                  "warmup_steps",
                                  "weight_decay",
                                  "max_grad_norm",
                                  "max_steps",
                                  "num_train_epochs",
                                  "seed",
                                  "data_seed",
                                  "dataset_name",
                                  "dataset_config",
                                  "dataset_train_split",
                                  "dataset_test_split",
                                  "eval_dataset_name"};

struct NamedSettings {
    std::string name;
    NamedTexts own;
};

std::string place_of(const std::string& file, const std::string& adapter) {
    return format_text("{}, adapter {}", file, adapter);
}

// The settings of the job, with those of the adapter in their place.
Resolution resolve_one(const OptionTable& table, const Settings& job, const NamedSettings& adapter,
                       const std::string& file) {
    Resolution result;
    Resolver resolver(table, result);
    const std::set<std::string> of_job{"adapters", "adapters_at_a_time", "use_peft"};
    const auto is_own = [&](const std::string& name) {
        return std::ranges::any_of(adapter.own, [&](const auto& own) { return own.first == name; });
    };
    for (const auto& [name, given] : job.given)
        if (!of_job.contains(name) && !is_own(name))
            resolver.take({{name, given.text, given.origin}});
    const Origin origin{Strength::command_line, place_of(file, adapter.name)};
    for (const auto& [name, text] : adapter.own) resolver.take({{name, text, origin}});
    resolver.take({{"use_peft", "true", job.origin_of("adapters")}});
    resolver.apply();
    check_together(result.settings, result.broken, result.problems);
    return result;
}

std::vector<NamedSettings> parse(const std::string& json) {
    std::vector<NamedSettings> adapters;
    const ordered_json list = parse_json<ordered_json>(json).value();
    for (const auto& object : list) {
        NamedSettings& adapter = adapters.emplace_back();
        for (const auto& [key, value] : object.items()) {
            if (key == "name")
                adapter.name = to_text(value);
            else
                adapter.own.emplace_back(key, to_text(value));
        }
    }
    return adapters;
}

bool is_list_of_objects(const std::string& text) {
    const auto list = json_or_null<ordered_json>(text);
    return list.is_array() && !list.empty() &&
           std::ranges::all_of(list, [](const auto& entry) { return entry.is_object(); });
}

std::string print(const std::vector<NamedSettings>& adapters) {
    ordered_json list = ordered_json::array();
    for (const NamedSettings& adapter : adapters) {
        ordered_json object{{"name", adapter.name}};
        for (const auto& [name, text] : adapter.own) object[name] = text;
        list.push_back(std::move(object));
    }
    return list.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Expected<std::vector<NamedSettings>> read(const std::string& text) {
    if (text.starts_with('[')) {
        if (is_list_of_objects(text)) return parse(text);
        return Failure{ExitCode::settings,
                       "adapters: must be the path of a file of adapters, or a JSON list with an "
                       "object for each adapter, such as [{\"name\": \"a\", \"lora_r\": 8}]"};
    }
    const auto sweep = read_sweep(text);
    if (!sweep) return sweep.failure();
    std::vector<NamedSettings> adapters;
    for (size_t run = 0; run < sweep.value().runs.size(); ++run) {
        NamedSettings adapter{concat(run), {}};
        for (auto& [name, value] : sweep.value().all_settings(run)) {
            if (name == "name")
                adapter.name = value;
            else
                adapter.own.emplace_back(lower_with_underscores(name), value);
        }
        adapters.push_back(std::move(adapter));
    }
    return adapters;
}

bool is_good_name(const std::string& name) {
    // A name with - at its beginning would be a flag to every program that gets its folder.
    return !name.empty() && name.front() != '-' &&
           std::ranges::all_of(name, [](unsigned char letter) {
               return std::isalnum(letter) != 0 || letter == '_' || letter == '-';
           });
}

// Names of files and folders that a job writes beside the folders of its adapters.
bool is_of_job(const std::string& name) {
    const std::string word = lower_case(name);
    for (const char* const beginning : {"attempt-", "checkpoint-", "superseded-"})
        if (word.starts_with(beginning)) return true;
    constexpr std::array names{"latest", "save-now", "stop-now", "stopped", "tensorboard"};
    return std::ranges::find(names, word) != names.end();
}

std::optional<std::string> why_not_own(const OptionTable& table, const std::string& name) {
    if (std::ranges::find(own_settings, name) != own_settings.end()) return std::nullopt;
    if (name == "use_peft") return "each of them is an adapter; leave it out";
    if (table.find(name) == nullptr && table.find_alias(name) == nullptr &&
        table.find_block(name) == nullptr)
        return format_text("there is no setting of this name; an adapter may have {}",
                           join({own_settings.begin(), own_settings.end()}, ", "));
    return format_text(
        "adapters that train together share it; give it on the command line, or in --config, for "
        "all of them, or train this adapter in a run of its own. An adapter may have {}",
        join({own_settings.begin(), own_settings.end()}, ", "));
}

void check_names(const std::vector<NamedSettings>& adapters, const std::string& file,
                 Problems& problems) {
    std::set<std::string> names;
    for (const NamedSettings& adapter : adapters) {
        if (!is_good_name(adapter.name))
            problems.push_back(
                {ExitCode::settings,
                 format_text(
                     "{}: name = {}: the name of an adapter has letters, digits, - and _ "
                     "alone, since it names a folder and tensors, and does not begin with -",
                     file, shown(adapter.name))});
        if (is_of_job(adapter.name))
            problems.push_back(
                {ExitCode::settings,
                 format_text(
                     "{}: name = {}: is the name of a file or folder of the job; give the adapter "
                     "another one",
                     file, shown(adapter.name))});
        if (!names.insert(adapter.name).second)
            problems.push_back(
                {ExitCode::settings,
                 format_text("{}: name = {}: two adapters have this name; their results would lie "
                             "in one folder, so give each a name of its own",
                             file, shown(adapter.name))});
    }
}

}  // namespace

void settle_adapters(const OptionTable& table, Resolution& result) {
    Settings& settings = result.settings;
    const std::string text = settings.values.adapter.adapters;
    if (text.empty()) return;
    const std::string file = text.starts_with('[') ? "adapters" : text;
    const auto adapters = read(text);
    if (!adapters) {
        result.problems.push_back(adapters.failure());
        return;
    }
    check_names(adapters.value(), file, result.problems);
    bool are_known = true;
    for (const NamedSettings& adapter : adapters.value())
        for (const auto& [name, value] : adapter.own)
            if (const auto why = why_not_own(table, name)) {
                are_known = false;
                result.problems.push_back(
                    {ExitCode::settings, format_text("{} = {} [{}]: {}", name, value,
                                                     place_of(file, adapter.name), *why)});
            }
    if (!are_known || !result.problems.empty()) return;
    for (const NamedSettings& adapter : adapters.value())
        for (const Failure& problem : resolve_one(table, settings, adapter, file).problems)
            result.problems.push_back(problem);
    settings.values.adapter.adapters = print(adapters.value());
    settings.given["adapters"].text = settings.values.adapter.adapters;
}

std::vector<AdapterRun> adapter_runs(const Settings& job, const OptionTable& table) {
    std::vector<AdapterRun> runs;
    const std::string& text = job.values.adapter.adapters;
    if (text.empty()) return runs;
    for (const NamedSettings& adapter : parse(text)) {
        Resolution resolved = resolve_one(table, job, adapter, "adapters");
        RINGSHARD_CHECK(resolved.problems.empty(), "{}", resolved.problems.front().message);
        runs.push_back({adapter.name, std::move(resolved.settings)});
    }
    return runs;
}

}  // namespace ringshard::config
