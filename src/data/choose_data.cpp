#include "ringshard/data/choose_data.hpp"

#include <algorithm>
#include <array>

#include "ringshard/base/files.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/text_tools.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using text::Value;

Failure wrong_mixture(const std::string& what) {
    return {ExitCode::settings,
            concat("datasets: ", what,
                   "; it is a list of {path, name, data_dir, data_files, split, "
                   "columns, fraction}")};
}

// Text, or a list of texts; anything else is told.
Expected<std::vector<std::string>> texts_of(const Value& value, const std::string& name) {
    std::vector<std::string> texts;
    if (value.string() != nullptr) return std::vector{*value.string()};
    const Value::List none;
    for (const Value& item : value.list() != nullptr ? *value.list() : none) {
        if (item.string() == nullptr) return wrong_mixture(concat(name, " holds ", item.kind()));
        texts.push_back(*item.string());
    }
    if (texts.empty()) return wrong_mixture(concat(name, " is ", value.kind()));
    return texts;
}

// path: json, data_files: ... names files by their format, as load_dataset does.
bool is_format(const std::string& path) {
    static constexpr std::array formats{"json", "parquet", "arrow"};
    return std::ranges::find(formats, path) != formats.end();
}

Expected<Source> read_source(const Value& entry) {
    if (entry.object() == nullptr) return wrong_mixture(concat("an entry is ", entry.kind()));
    Source source{.dataset = {.setting = "datasets", .split = "train"}};
    std::string data_dir;
    for (const auto& [name, value] : *entry.object()) {
        if (value.is_null()) continue;
        if (name == "fraction") {
            const double* real = value.real();
            const int64_t* whole = value.integer();
            source.fraction = real != nullptr    ? *real
                              : whole != nullptr ? static_cast<double>(*whole)
                                                 : -1;
            if (source.fraction <= 0) return wrong_mixture("fraction has to be above 0");
            continue;
        }
        static constexpr std::array known{"path",     "name",       "split",
                                          "data_dir", "data_files", "columns"};
        if (std::ranges::find(known, name) == known.end())
            return wrong_mixture(concat("there is no ", name));
        const auto texts = texts_of(value, name);
        if (!texts) return texts.failure();
        const bool is_list = name == "columns" || name == "data_files";
        if (!is_list && value.string() == nullptr)
            return wrong_mixture(concat(name, " is ", value.kind()));
        if (name == "path")
            source.dataset.path = texts.value().front();
        else if (name == "name")
            source.dataset.config = texts.value().front();
        else if (name == "split")
            source.dataset.split = texts.value().front();
        else if (name == "data_dir")
            data_dir = texts.value().front();
        else if (name == "data_files")
            source.dataset.data_files = texts.value();
        else
            source.columns = texts.value();
    }
    if (source.dataset.path.empty()) return wrong_mixture("an entry has no path");
    if (is_format(source.dataset.path)) source.dataset.path = ".";
    if (!data_dir.empty())
        source.dataset.path = (fs::path(source.dataset.path) / data_dir).string();
    return source;
}

Expected<std::vector<Source>> read_mixture(const std::string& json) {
    const auto list = text::read_json(json);
    if (!list) return wrong_mixture(concat("is no JSON: ", list.failure().message));
    if (list.value().list() == nullptr) return wrong_mixture(concat("is ", list.value().kind()));
    if (list.value().list()->empty()) return wrong_mixture("is empty");
    std::vector<Source> sources;
    for (const Value& entry : *list.value().list()) {
        auto source = read_source(entry);
        if (!source) return source.failure();
        sources.push_back(std::move(source).value());
    }
    const auto has_fraction = [](const Source& source) { return source.fraction > 0; };
    if (std::ranges::any_of(sources, has_fraction) && !std::ranges::all_of(sources, has_fraction))
        return wrong_mixture("fraction is given for some and not for all");
    return sources;
}

// As validated: nothing, false, true, or what reasoning begins and ends with.
std::vector<std::string> reasoning_marks(const std::vector<std::string>& setting) {
    if (setting.size() == 2) return setting;
    if (setting.empty() || setting.front() == "false") return {};
    return {"<think>", "</think>"};
}

bool is_share_of_all(const config::DataSettings& data) { return data.test_split_size.has_value(); }

}  // namespace

Expected<FormatSettings> format_settings(const config::Config& config, const HubCache& hub) {
    const config::DataSettings& data = config.data;
    const auto tokenizer = hub.model_folder(config.model.model_name_or_path,
                                            config.model.model_revision, "model_name_or_path");
    if (!tokenizer) return tokenizer.failure();
    FormatSettings format{.tokenizer = tokenizer.value(),
                          .chat_template = config.model.chat_template_path,
                          .eos_token = config.model.eos_token,
                          .added_tokens = config.model.added_tokens,
                          .text_field = data.dataset_text_field,
                          .completion_only_loss = data.completion_only_loss,
                          .assistant_only_loss = data.assistant_only_loss,
                          .roles_to_train = data.roles_to_train,
                          .train_on_last_turn_only = data.train_on_last_turn_only,
                          .mask_reasoning = reasoning_marks(data.mask_reasoning)};
    if (const std::string& path = config.model.chat_template_path;
        !path.empty() && !is_template_file(path) && !folder_exists(path)) {
        const auto other = hub.model_folder(path, "main", "chat_template_path");
        if (!other) return other.failure();
        format.chat_template = other.value();
    }
    return format;
}

namespace {

// What training and evaluation have in common.
Expected<Preparation> common_settings(const config::Config& config, const HubCache& hub) {
    const config::DataSettings& data = config.data;
    auto format = format_settings(config, hub);
    if (!format) return format.failure();
    Preparation preparation;
    preparation.format = std::move(format).value();
    preparation.skip_bad_rows = data.skip_bad_rows;
    preparation.test_size = data.test_split_size.value_or(0);
    preparation.split_seed = config.run.seed;
    preparation.rows = {.max_length = data.max_length,
                        .truncation = data.truncation_mode,
                        .packs = data.packing,
                        .strategy = data.packing_strategy,
                        .scope = data.packing_scope,
                        .shuffles = data.shuffle_dataset,
                        .seed = config.run.seed};
    if (data.skip_prepare_dataset) {
        preparation.rows.max_length = std::nullopt;
        preparation.rows.packs = preparation.rows.shuffles = false;
    }
    return preparation;
}

Expected<std::vector<Source>> named_sources(const config::DataSettings& data,
                                            const std::string& split) {
    if (!data.datasets.empty()) return read_mixture(data.datasets);
    if (data.dataset_name.empty())
        return Failure{ExitCode::settings,
                       "dataset_name is not set: name a file, a folder, a glob or a hub dataset"};
    return std::vector{Source{.dataset = {.setting = "dataset_name",
                                          .path = data.dataset_name,
                                          .config = data.dataset_config,
                                          .split = split}}};
}

}  // namespace

Expected<Preparation> training_data(const config::Config& config, const HubCache& hub) {
    auto preparation = common_settings(config, hub);
    if (!preparation) return preparation;
    auto sources = named_sources(config.data, config.data.dataset_train_split);
    if (!sources) return sources.failure();
    preparation.value().sources = std::move(sources).value();
    if (is_share_of_all(config.data)) preparation.value().side = SampleChoice::Side::train;
    return preparation;
}

Expected<Preparation> evaluation_data(const config::Config& config, const HubCache& hub) {
    auto preparation = common_settings(config, hub);
    if (!preparation) return preparation;
    const config::DataSettings& data = config.data;
    if (data.eval_packing && !data.skip_prepare_dataset)
        preparation.value().rows.packs = *data.eval_packing;
    if (!data.eval_dataset_name.empty()) {
        preparation.value().sources = {Source{.dataset = {.setting = "eval_dataset_name",
                                                          .path = data.eval_dataset_name,
                                                          .config = data.dataset_config,
                                                          .split = data.dataset_test_split,
                                                          .takes_any_split = true}}};
        return preparation;
    }
    const bool splits_off = is_share_of_all(data);
    if (!splits_off && !data.datasets.empty())
        return Failure{
            ExitCode::settings,
            "eval_strategy: a mixture (datasets) has no test split; give test_split_size "
            "or eval_dataset_name"};
    auto sources =
        named_sources(data, splits_off ? data.dataset_train_split : data.dataset_test_split);
    if (!sources) return sources.failure();
    preparation.value().sources = std::move(sources).value();
    for (Source& source : preparation.value().sources)
        source.dataset.cure =
            "to evaluate, dataset_test_split names one of these, test_split_size = 0.1 takes a "
            "part "
            "of the training data, eval_dataset_name names other data";
    if (splits_off) preparation.value().side = SampleChoice::Side::test;
    return preparation;
}

fs::path cache_folder(const config::DataSettings& settings, const HubCache& hub) {
    return settings.data_cache_dir.empty() ? hub.home() / "ringshard"
                                           : fs::path(settings.data_cache_dir);
}

}  // namespace ringshard::data
