#include "ringshard/run/run_adapters.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/error.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/adapter_runs.hpp"
#include "ringshard/config/optimizer_settings.hpp"
#include "ringshard/model/freeze.hpp"
#include "ringshard/model/quantize.hpp"
#include "ringshard/model/update_rules.hpp"
#include "ringshard/optim/update_groups.hpp"
#include "ringshard/peft/named_adapters.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;

namespace {

Failure refuse(const std::string& why) { return {ExitCode::settings, why}; }

template <class Value>
peft::Patterns<Value> patterns_of(const std::string& text) {
    peft::Patterns<Value> patterns;
    const auto read = config::read_adapter_patterns(text);
    RINGSHARD_CHECK(read.has_value(), "{} is no object of numbers", text);
    for (const auto& [pattern, number] : *read)
        patterns.emplace_back(pattern, static_cast<Value>(number));
    return patterns;
}

std::optional<std::vector<int64_t>> blocks_of(const config::AdapterSettings& settings) {
    if (settings.layers_to_transform.empty()) return std::nullopt;
    return settings.layers_to_transform;
}

peft::LoraConfig config_of(const config::AdapterSettings& settings) {
    const std::vector<std::string>& excluded = settings.exclude_modules;
    return {
        .r = settings.lora_r,
        .lora_alpha = settings.lora_alpha,
        .lora_dropout = settings.lora_dropout,
        .target_modules = settings.lora_target_modules,
        // TRL takes a list of one name for a regular expression.
        .targets_are_expression = settings.lora_target_modules.size() == 1,
        .exclude_modules = excluded,
        .exclusion_is_expression = excluded.size() == 1 && !peft::is_plain_name(excluded.front()),
        .target_parameters = settings.lora_target_parameters,
        .modules_to_save = settings.lora_modules_to_save,
        .use_rslora = settings.use_rslora,
        .use_dora = settings.use_dora,
        .lora_bias = settings.lora_bias,
        .init = config::read_adapter_init(settings.init_lora_weights).value(),
        .bias = settings.bias,
        .rank_pattern = patterns_of<int64_t>(settings.rank_pattern),
        .alpha_pattern = patterns_of<double>(settings.alpha_pattern),
        .layers_to_transform = blocks_of(settings),
        .layers_pattern = settings.layers_pattern,
        .trained_tokens = config::read_trained_tokens(settings.trainable_token_indices).value(),
        .task_type = settings.lora_task_type};
}

// Returns the settings that differ from the adapter's own file.
std::optional<Failure> check_against(const config::Settings& settings,
                                     const peft::LoraConfig& config) {
    const config::AdapterSettings& asked = settings.values.adapter;
    const std::pair<const char*, bool> pairs[] = {
        {"lora_r", asked.lora_r == config.r},
        {"lora_alpha", asked.lora_alpha == config.lora_alpha},
        {"use_rslora", asked.use_rslora == config.use_rslora},
        {"use_dora", asked.use_dora == config.use_dora},
        {"lora_bias", asked.lora_bias == config.lora_bias},
        {"bias", asked.bias == config.bias}};
    for (const auto& [name, is_same] : pairs)
        if (settings.is_fixed(name) && !is_same)
            return refuse(
                format_text("{} [{}]: the adapter in {} has another one; leave the setting out",
                            name, settings.origin_of(name).place, asked.adapter_name_or_path));
    for (const char* name :
         {"lora_target_modules", "lora_target_parameters", "lora_modules_to_save",
          "exclude_modules", "layers_to_transform", "layers_pattern", "rank_pattern",
          "alpha_pattern", "trainable_token_indices"})
        if (settings.is_fixed(name))
            return refuse(format_text(
                "{} [{}]: adapter_name_or_path says which modules are trained, and with which "
                "ranks; leave it out",
                name, settings.origin_of(name).place));
    if (settings.is_fixed("init_lora_weights"))
        return refuse(format_text(
            "init_lora_weights [{}]: adapter_name_or_path holds the first values; leave it out",
            settings.origin_of("init_lora_weights").place));
    return std::nullopt;
}

struct AdapterFile {
    std::string folder;
    std::string text;
};

std::string last_name(const std::string& model) { return without_slash(model).filename().string(); }

// An adapter of a model with the same shapes loads, and no number of it fits.
void warn_of_other_base(const config::Settings& settings, const AdapterFile& file) {
    const auto config = json_or_null<nlohmann::json>(file.text);
    const auto named = config.is_object() ? config.find("base_model_name_or_path") : config.end();
    if (named == config.end() || !named->is_string()) return;
    const std::string base = last_name(named->get<std::string>());
    const std::string& model = settings.values.model.model_name_or_path;
    if (base.empty() || model.empty() || base == last_name(model)) return;
    std::cerr << format_text(
        "warning: the adapter in {} was trained beside {} (base_model_name_or_path in its {}), and "
        "model_name_or_path is {}: beside a model with other weights its numbers have no meaning\n",
        file.folder, named->get<std::string>(), peft::adapter_config_name, model);
}

Expected<AdapterFile> read_adapter_file(const config::Settings& settings, const HubCache& hub) {
    const std::string& name = settings.values.adapter.adapter_name_or_path;
    const auto folder = hub.model_folder(name, "main", "adapter_name_or_path");
    if (!folder) return folder.failure();
    if (const auto failure = peft::check_adapter_folder(folder.value())) return *failure;
    const fs::path file = folder.value() / peft::adapter_config_name;
    auto text = read_file(file);
    if (!text)
        return Failure{ExitCode::missing_input, format_text("{}: cannot be read", file.string())};
    AdapterFile read{folder.value().string(), std::move(*text)};
    warn_of_other_base(settings, read);
    return read;
}

// Applies the settings in the file of an existing adapter.
std::optional<Failure> take_file(AskedAdapter& asked, const AdapterFile& file) {
    const config::Settings& settings = asked.settings;
    auto config = peft::parse_adapter_config(
        file.text, (fs::path(file.folder) / peft::adapter_config_name).string());
    if (!config) return config.failure();
    if (config.value().init.takes_from_weights())
        return Failure{
            ExitCode::bad_data,
            format_text(
                "{}: init_lora_weights is one that takes the adapter out of the weights of the "
                "model, which are others then; let PEFT write it for the whole weights: "
                "save_pretrained(FOLDER, path_initial_model_for_weight_conversion=...)",
                file.folder)};
    if (auto failure = check_against(settings, config.value())) return failure;
    if (settings.is_fixed("lora_dropout"))
        config.value().lora_dropout = settings.values.adapter.lora_dropout;
    asked.config = std::move(config).value();
    asked.folder = file.folder;
    return std::nullopt;
}

}  // namespace

std::vector<LearnerInJob> learners_of(const config::Settings& settings,
                                      const AskedAdapters& adapters) {
    std::vector<LearnerInJob> learners;
    for (const AskedAdapter& adapter : adapters)
        learners.push_back({adapter.name, adapter.name.empty() ? settings : adapter.settings});
    return learners;
}

std::vector<BegunAdapter> beginnings_of(const AskedAdapters& adapters) {
    std::vector<BegunAdapter> beginnings;
    for (const AskedAdapter& adapter : adapters)
        beginnings.push_back(
            {{static_cast<uint64_t>(adapter.settings.values.run.seed), adapter.config.init},
             adapter.folder});
    return beginnings;
}

bool asks_for_adapters(const config::Config& config) {
    return config.adapter.use_peft || !config.adapter.adapter_name_or_path.empty() ||
           !config.adapter.adapters.empty();
}

namespace {

// Those of the settings alone.
AskedAdapters asked_by_settings(const config::Settings& settings) {
    AskedAdapters asked;
    for (config::AdapterRun& run : config::adapter_runs(settings, config::OptionTable())) {
        peft::LoraConfig config = config_of(run.settings.values.adapter);
        asked.push_back({run.name, std::move(run.settings), std::move(config)});
    }
    if (asked.empty()) asked.push_back({"", settings, config_of(settings.values.adapter)});
    return asked;
}

bool goes_on(const config::Settings& settings) {
    return !settings.values.adapter.adapter_name_or_path.empty();
}

// The settings that name an adapter to go on from.
std::vector<const config::Settings*> continued(const AskedAdapters& asked) {
    std::vector<const config::Settings*> all;
    for (const AskedAdapter& adapter : asked)
        if (goes_on(adapter.settings)) all.push_back(&adapter.settings);
    return all;
}

Expected<std::vector<AdapterFile>> read_adapter_files(
    const std::vector<const config::Settings*>& continued, const HubCache& hub) {
    std::vector<AdapterFile> files;
    for (const config::Settings* settings : continued) {
        auto file = read_adapter_file(*settings, hub);
        if (!file) return file.failure();
        files.push_back(std::move(file).value());
    }
    return files;
}

// The failure with the adapter's name, if it is one of several.
Failure of_one(const AskedAdapter& adapter, const Failure& failure) {
    if (adapter.name.empty()) return failure;
    return {failure.code, format_text("adapter {}: {}", adapter.name, failure.message)};
}

// Applies the settings in the files of existing adapters, in the order of continued().
Expected<AskedAdapters> with_files(AskedAdapters asked, const std::vector<AdapterFile>& files) {
    auto file = files.begin();
    for (AskedAdapter& adapter : asked)
        if (goes_on(adapter.settings))
            if (const auto failure = take_file(adapter, *file++)) return of_one(adapter, *failure);
    return asked;
}

std::optional<Failure> add_adapters(model::ModelSpec& spec, AskedAdapters& asked) {
    std::vector<peft::NamedConfig> adapters;
    for (const AskedAdapter& one : asked) adapters.push_back({one.name, one.config});
    if (auto failure = peft::add_adapters(spec, adapters)) return failure;
    for (size_t number = 0; number < asked.size(); ++number) {
        AskedAdapter& one = asked[number];
        if (one.folder.empty())
            if (const auto failure =
                    peft::find_idle_choice(peft::with_adapter_alone(spec, number), one.config))
                return of_one(one, *failure);
        one.config = std::move(adapters[number].config);
    }
    return std::nullopt;
}

}  // namespace

Expected<AskedAdapters> read_asked_adapters(const config::Settings& settings, const HubCache& hub) {
    AskedAdapters asked = asked_by_settings(settings);
    const auto files = read_adapter_files(continued(asked), hub);
    return files ? with_files(std::move(asked), files.value()) : files.failure();
}

comm::Agreed<AskedAdapters> read_asked_adapters(const config::Settings& settings,
                                                const HubCache& hub, const comm::Group& world) {
    AskedAdapters asked = asked_by_settings(settings);
    const std::vector<const config::Settings*> named = continued(asked);
    if (named.empty()) return asked;
    std::vector<AdapterFile> files;
    std::optional<Failure> failure;
    if (world.is_root()) {
        auto read = read_adapter_files(named, hub);
        if (read)
            files = std::move(read).value();
        else
            failure = read.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    files.resize(named.size());
    for (AdapterFile& file : files)
        file = {world.broadcast(file.folder), world.broadcast(file.text)};
    auto parsed = with_files(std::move(asked), files);
    if (!parsed) return comm::found_by_all(parsed.failure());
    return std::move(parsed).value();
}

namespace {

std::optional<Failure> choose_weights(model::ModelSpec& spec, const config::Settings& settings,
                                      AskedAdapters& adapters) {
    const config::ModelSettings& model = settings.values.model;
    if (!asks_for_adapters(settings.values)) {
        auto frozen = model::find_frozen(spec, model.freeze, model.train_only);
        if (!frozen) return frozen.failure();
        spec.frozen = std::move(frozen).value();
        return std::nullopt;
    }
    for (const char* name : {"freeze", "train_only"})
        if (settings.is_fixed(name))
            return refuse(
                format_text("{} [{}]: with adapters all weights of the model are frozen but those "
                            "of lora_modules_to_save; leave it out",
                            name, settings.origin_of(name).place));
    if (auto failure = add_adapters(spec, adapters)) return failure;
    if (!are_several(adapters) && settings.values.adapter.bias != config::TrainedBiases::none &&
        !peft::trains_biases(spec, adapters.front().config))
        return refuse(
            format_text("bias [{}]: the model has no biases, or (lora_only) none in layers with an "
                        "adapter; leave it out",
                        settings.origin_of("bias").place));
    if (spec.adapters.front().layers.contains(spec.names.embedding) &&
        settings.values.training.loraplus_lr_ratio != 1)
        return refuse(
            format_text("loraplus_lr_ratio [{}]: PEFT trains an adapter of the embedding with a "
                        "rate apart (loraplus_lr_embedding), which is not served; leave one out",
                        settings.origin_of("loraplus_lr_ratio").place));
    const config::QuantizationSettings& quantization = settings.values.quantization;
    if (!quantization.is_on()) return std::nullopt;
    shard::Codec form = shard::Codec::int8;
    if (quantization.load_in_4bit)
        form = quantization.use_bnb_nested_quant ? shard::Codec::nested_nf4 : shard::Codec::nf4;
    return model::quantize_frozen(spec, form);
}

// Refuses an optimizer that would update no weight.
std::optional<Failure> check_optimizers(const model::ModelSpec& spec,
                                        const config::Settings& settings) {
    const optim::UpdateGroups groups(settings.values.training);
    if (groups.optimizers().size() == 1) return std::nullopt;
    std::vector<shard::ParameterGroup> trained;
    model::make_units(spec, 1, 1, false, [&](const shard::ParameterGroup& group) {
        trained.push_back(group);
        return shard::UpdateChoice{};
    });
    const auto unused = groups.find_unused(trained);
    if (!unused) return std::nullopt;
    if (unused->rule == 0)
        return refuse(format_text(
            "optim = {} [{}]: updates {}, and none of the trained weights is one, such as {}; give "
            "another optim, or train such matrices",
            settings.given.at("optim").text, settings.origin_of("optim").place, unused->needs,
            trained.front().tensors.front().name));
    const auto named = std::ranges::find(trained, unused->rule, &shard::ParameterGroup::rule);
    return refuse(format_text(
        "lr_groups [{}]: pattern {}: its optim updates {}, and none of the weights that the "
        "pattern names is one, such as {}; give it another optim, or a pattern of such matrices",
        settings.origin_of("lr_groups").place, groups.rules()[unused->rule - 1].pattern,
        unused->needs, named->tensors.front().name));
}

}  // namespace

std::optional<Failure> refuse_whole_training(const model::ModelSpec& spec,
                                             const config::Settings& settings) {
    if (spec.stored_form.trains_whole || asks_for_adapters(settings.values)) return std::nullopt;
    return refuse(format_text(
        "use_peft [{}]: the model's files hold codes of {} (quantization_config in config.json), "
        "and adapters alone are trained beside such weights: give use_peft true; or name the "
        "model's unquantised release, or one that transformers wrote after model.dequantize()",
        settings.origin_of("use_peft").place, spec.stored_form.method));
}

std::optional<Failure> choose_trained(model::ModelSpec& spec, const config::Settings& settings,
                                      AskedAdapters& adapters) {
    if (auto failure = choose_weights(spec, settings, adapters)) return failure;
    const auto rules = config::read_lr_groups(settings.values.training);
    if (!rules) return rules.failure();
    std::vector<std::string> patterns;
    for (const config::UpdateRule& rule : rules.value()) patterns.push_back(rule.pattern);
    auto found = model::find_update_rules(spec, patterns);
    if (!found) return found.failure();
    spec.update_rules = std::move(found).value();
    return check_optimizers(spec, settings);
}

Expected<std::vector<StoredAdapter>> stored_adapters_of(
    const std::map<std::string, std::string>& texts, const std::string& checkpoint) {
    std::vector<StoredAdapter> stored;
    if (const auto text = texts.find(peft::adapter_text); text != texts.end())
        stored.push_back({"", text->second, {}});
    if (const auto named = texts.find(peft::named_adapters_text); named != texts.end()) {
        const auto by_name = json_or_null<nlohmann::ordered_json>(named->second);
        if (!by_name.is_object())
            return Failure{ExitCode::bad_data, format_text("{}: its text {} is not readable JSON",
                                                           checkpoint, peft::named_adapters_text)};
        for (const auto& [name, config] : by_name.items())
            stored.push_back({name, config.is_string() ? config.get<std::string>() : "", {}});
    }
    for (StoredAdapter& adapter : stored) {
        auto parsed = peft::parse_adapter_config(adapter.text, checkpoint);
        if (!parsed) return parsed.failure();
        adapter.config = std::move(parsed).value();
    }
    return stored;
}

std::optional<Failure> add_stored_adapters(model::ModelSpec& spec,
                                           const std::vector<StoredAdapter>& adapters) {
    if (adapters.empty()) return std::nullopt;
    std::vector<peft::NamedConfig> configs;
    for (const auto& [name, text, config] : adapters) configs.push_back({name, config});
    return peft::add_adapters(spec, configs);
}

}  // namespace ringshard::run
