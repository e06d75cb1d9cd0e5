#include "ringshard/data/choose_data.hpp"

#include <algorithm>

#include "read_mixture.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/config/evaluation_sets.hpp"
#include "ringshard/config/loss_scale.hpp"
#include "ringshard/data/text_tools.hpp"
#include "ringshard/text/tokenizer_folder.hpp"
#include "ringshard/text/value.hpp"
#include "row_template.hpp"
#include "scored_row.hpp"

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using text::Value;

// Returns the markers of a validated setting: false, true, empty, or the begin and end marker.
std::vector<std::string> reasoning_marks(const std::vector<std::string>& setting) {
    if (setting.size() == 2) return setting;
    if (setting.empty() || setting.front() == "false") return {};
    if (setting.front() == "empty") return {"<think>", "</think>", "empty"};
    return {"<think>", "</think>"};
}

bool is_share_of_all(const config::DataSettings& data) { return data.test_split_size.has_value(); }

}  // namespace

RowContent row_content(const config::TrainingSettings& training) {
    return {.is_pair = training.learns_pairs(),
            .is_scored = training.learns_scores(),
            .is_embedded = training.learns_embeddings(),
            .pooling = training.pooling.value_or(config::Pooling::lasttoken),
            .has_numbers = training.learns_numbers(),
            .is_judged = training.judges_answers()};
}

namespace {

RowContent content_of(const config::Config& config) {
    RowContent content = row_content(config.training);
    content.learns_prompts =
        config.training.compares_odds() && !config.data.completion_only_loss.value_or(false);
    return content;
}

}  // namespace

Expected<FormatSettings> format_settings(const config::Config& config, const HubCache& hub) {
    const config::DataSettings& data = config.data;
    const auto tokenizer = hub.model_folder(config.model.model_name_or_path,
                                            config.model.model_revision, "model_name_or_path");
    if (!tokenizer) return tokenizer.failure();
    FormatSettings format{.tokenizer = tokenizer.value(),
                          .chat_template = config.model.chat_template_path,
                          .chat_template_text = config.model.chat_template,
                          .system_prompt = data.system_prompt,
                          .eos_token = config.model.eos_token,
                          .added_tokens = config.model.added_tokens,
                          .text_field = data.dataset_text_field,
                          .completion_only_loss = data.completion_only_loss,
                          .assistant_only_loss = data.assistant_only_loss,
                          .roles_to_train = data.roles_to_train,
                          .train_on_last_turn_only = data.train_on_last_turn_only,
                          .mask_reasoning = reasoning_marks(data.mask_reasoning),
                          .loss_scale = config::loss_scale_rules(data.loss_scale),
                          .agent_template = data.agent_template,
                          .text_only = data.text_only,
                          .content = content_of(config),
                          .num_labels = config.training.classes(),
                          .class_names = config.training.class_names,
                          .has_label_sets = config.training.learns_label_sets()};
    if (auto failure = take_labels_of_model(format)) return *failure;
    if (format.content.is_embedded && !config.training.pooling)
        if (auto failure = take_pooling_of_model(format)) return *failure;
    if (const std::string& path = config.model.chat_template_path;
        !path.empty() && !is_template_file(path) && !folder_exists(path)) {
        const auto other = hub.model_folder(path, "main", "chat_template_path");
        if (!other) return other.failure();
        format.chat_template = other.value();
    }
    return format;
}

namespace {

// Returns the data settings that training and evaluation share.
Expected<Preparation> common_settings(const config::Config& config, const HubCache& hub) {
    const config::DataSettings& data = config.data;
    auto format = format_settings(config, hub);
    if (!format) return format.failure();
    Preparation preparation;
    preparation.format = std::move(format).value();
    preparation.skip_bad_rows = data.skip_bad_rows;
    preparation.test_size = data.test_split_size.value_or(0);
    preparation.split_seed = config.run.seed;
    preparation.shuffle_seed = data.mixture_seed;
    preparation.documents = data.sample_by == config::SampleBy::document;
    preparation.drops_copies = data.dataset_exact_deduplication;
    preparation.rows = {.max_length = data.max_length,
                        .min_length = data.min_length,
                        .truncation = data.truncation_mode,
                        .content = preparation.format.content,
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

// Returns true if the template reads bos_token, eos_token or another fact about the tokenizer.
bool needs_special_tokens(const RowTemplate& made) {
    return std::ranges::any_of(made.names(), [](const std::string& name) {
        return name == "bos_token" || name == "eos_token" || name == "pad_token" ||
               name == "unk_token" || name == "has_chat_template";
    });
}

// Gives row_template and template_variables to every source without its own, and parses them.
std::optional<Failure> make_templates(const config::DataSettings& data,
                                      const FormatSettings& format, std::vector<Source>& sources) {
    const auto variables = read_template_variables(data.template_variables);
    if (!variables) return variables.failure();
    for (Source& source : sources) {
        RowMapping& mapping = source.mapping;
        for (const auto& [name, value] : variables.value())
            if (std::ranges::find(mapping.variables, name, &Value::Object::value_type::first) ==
                mapping.variables.end())
                mapping.variables.emplace_back(name, value);
        if (mapping.template_source.empty()) mapping.template_source = data.row_template;
        if (mapping.template_source.empty()) continue;
        auto text = read_row_template(mapping.template_source);
        if (!text) return text.failure();
        mapping.template_source = std::move(text).value();
        auto made = RowTemplate::parse(mapping.template_source, mapping.variables);
        if (made && needs_special_tokens(made.value())) {
            const auto folder = text::TokenizerFolder::read(format.tokenizer);
            if (!folder) return folder.failure();
            Value::Object all = mapping.variables;
            for (const auto& [name, token] : folder.value().special_tokens)
                all.emplace_back(name, Value(token));
            all.emplace_back(
                "has_chat_template",
                Value(folder.value().chat_template(false).has_value() ||
                      !format.chat_template.empty() || !format.chat_template_text.empty()));
            made = RowTemplate::parse(mapping.template_source, std::move(all));
        }
        if (!made) return made.failure();
        mapping.row_template = std::make_shared<const RowTemplate>(std::move(made).value());
    }
    return std::nullopt;
}

// Reads the names of the settings, which are those of sources without names of their own.
Expected<RowMapping> read_mapping(const config::DataSettings& data) {
    RowMapping mapping{.role_key = data.role_key, .content_key = data.content_key};
    const auto read = [](const char* setting, const std::string& json) -> Expected<Value> {
        auto value = text::read_json(json);
        if (value) return value;
        return Failure{ExitCode::settings,
                       format_text("{}: is no JSON: {}", setting, value.failure().message)};
    };
    if (!data.column_map.empty()) {
        const auto value = read("column_map", data.column_map);
        if (!value) return value.failure();
        auto map = read_column_map(value.value(), "column_map", data.dataset_text_field);
        if (!map) return map.failure();
        mapping.column_map = std::move(map).value();
    }
    if (!data.roles.empty()) {
        const auto value = read("roles", data.roles);
        if (!value) return value.failure();
        auto roles = read_roles(value.value(), "roles");
        if (!roles) return roles.failure();
        mapping.roles = std::move(roles).value();
    }
    return mapping;
}

// Gives the names, row_template and template_variables to every source without its own.
std::optional<Failure> map_columns(const config::DataSettings& data, const FormatSettings& format,
                                   std::vector<Source>& sources) {
    if (auto failure = make_templates(data, format, sources)) return failure;
    const auto mapping = read_mapping(data);
    if (!mapping) return mapping.failure();
    for (Source& source : sources) {
        RowMapping& own = source.mapping;
        if (own.column_map.empty()) own.column_map = mapping.value().column_map;
        if (own.role_key.empty()) own.role_key = mapping.value().role_key;
        if (own.content_key.empty()) own.content_key = mapping.value().content_key;
        if (own.roles.empty()) own.roles = mapping.value().roles;
    }
    return std::nullopt;
}

// Sets how to draw a mixture, if it has weights.
std::optional<Failure> choose_drawing(const config::Config& config, Preparation& preparation) {
    const config::DataSettings& data = config.data;
    const auto has = [&](std::optional<double> Source::*amount) {
        return std::ranges::any_of(preparation.sources, [&](const Source& source) {
            return (source.*amount).has_value();
        });
    };
    const bool has_amounts = has(&Source::fraction) || has(&Source::weight) || has(&Source::epochs);
    const auto refuse = [](const std::string& what) { return Failure{ExitCode::settings, what}; };
    if (data.mixture_temperature && (has_amounts || preparation.sources.size() < 2))
        return refuse(format_text(
            "mixture_temperature = {}: gives the datasets of a mixture weights by their sizes, and "
            "{}; leave one of them out",
            shortest(*data.mixture_temperature),
            has_amounts ? "these have fraction, weight or epochs" : "there is one dataset"));
    const bool is_drawn = data.mixture_temperature || has(&Source::weight);
    if (data.mixture_stopping_strategy != config::StoppingStrategy::first_exhausted && !is_drawn)
        return refuse(
            "mixture_stopping_strategy = all_exhausted: says when a mixture with weights ends; "
            "give each of the datasets a weight, or set mixture_temperature");
    if (is_share_of_all(data) &&
        (is_drawn || std::ranges::any_of(preparation.sources, &Source::repeats)))
        return refuse(
            "test_split_size: a mixture with weight, epochs above 1 or mixture_temperature takes "
            "samples more than once, and the same one could be learned and evaluated; give "
            "eval_dataset_name");
    if (data.dataset_exact_deduplication &&
        (is_drawn || std::ranges::any_of(preparation.sources, &Source::repeats)))
        return refuse(
            "dataset_exact_deduplication: a mixture with weight, epochs above 1 or "
            "mixture_temperature takes samples more than once; leave one of them out");
    if (data.mixture_seed && is_drawn)
        return refuse(
            "mixture_seed: a mixture with weight or mixture_temperature is drawn with the seed of "
            "the run; leave one of them out");
    preparation.drawing = {.stops = data.mixture_stopping_strategy,
                           .temperature = data.mixture_temperature,
                           .seed = is_drawn ? config.run.seed : 0};
    return std::nullopt;
}

Expected<std::vector<Source>> named_sources(const config::DataSettings& data,
                                            const FormatSettings& format,
                                            const std::string& split) {
    if (!data.datasets.empty()) {
        auto sources = read_mixture(data.datasets);
        if (!sources) return sources;
        if (auto failure = map_columns(data, format, sources.value())) return *failure;
        return sources;
    }
    if (data.dataset_name.empty())
        return Failure{ExitCode::settings,
                       "dataset_name is not set: name a file, a folder, a glob or a hub dataset"};
    std::vector sources{Source{.dataset = {.setting = "dataset_name",
                                           .path = data.dataset_name,
                                           .config = data.dataset_config,
                                           .split = split}}};
    if (auto failure = map_columns(data, format, sources)) return *failure;
    return sources;
}

// The rows are those of a file of scores, which marks the tokens that are learned.
void add_anchor(const std::string& anchor, Preparation& preparation) {
    preparation.sources.push_back(
        {.dataset = {.setting = "anchor", .path = anchor, .split = "train"},
         .mapping = {.column_map = {{"assistant_masks", "learned"}}}});
    preparation.has_anchor = true;
}

}  // namespace

Expected<Preparation> training_data(const config::Config& config, const HubCache& hub) {
    auto preparation = common_settings(config, hub);
    if (!preparation) return preparation;
    auto sources =
        named_sources(config.data, preparation.value().format, config.data.dataset_train_split);
    if (!sources) return sources.failure();
    preparation.value().sources = std::move(sources).value();
    if (auto failure = choose_drawing(config, preparation.value())) return *failure;
    if (is_share_of_all(config.data)) preparation.value().side = SampleChoice::Side::train;
    const config::TrainingSettings& training = config.training;
    if (!training.teacher_scores.empty())
        preparation.value().scores = {
            .setting = "teacher_scores",
            .folder = training.teacher_scores,
            .per_token = training.loss_top_k,
            .temperature = training.temperature,
            .cure =
                "score this dataset with the tokenizer and the chat template of this run: "
                "`trainer score --top_k N`"};
    if (training.anchor.empty()) return preparation;
    add_anchor(training.anchor, preparation.value());
    preparation.value().scores = {
        .setting = "anchor",
        .folder = training.anchor,
        .cure =
            "score its rows with the base model, and name the folder of the scores: `trainer "
            "score --model_name_or_path BASE --dataset_name ROWS --top_k N --output_dir "
            "FOLDER`"};
    return preparation;
}

namespace {

// `dataset`: one of eval_dataset_name; empty: a part of the training data, or the test split.
Expected<Preparation> one_evaluation_set(const config::Config& config, const HubCache& hub,
                                         const std::string& dataset) {
    auto preparation = common_settings(config, hub);
    if (!preparation) return preparation;
    const config::DataSettings& data = config.data;
    if (data.eval_packing && !data.skip_prepare_dataset)
        preparation.value().rows.packs = *data.eval_packing;
    if (!dataset.empty()) {
        preparation.value().sources = {Source{.dataset = {.setting = "eval_dataset_name",
                                                          .path = dataset,
                                                          .config = data.dataset_config,
                                                          .split = data.dataset_test_split,
                                                          .takes_any_split = true}}};
        if (auto failure =
                map_columns(data, preparation.value().format, preparation.value().sources))
            return *failure;
        return preparation;
    }
    const bool splits_off = is_share_of_all(data);
    if (!splits_off && !data.datasets.empty())
        return Failure{
            ExitCode::settings,
            "eval_strategy: a mixture (datasets) has no test split; give test_split_size "
            "or eval_dataset_name"};
    auto sources = named_sources(data, preparation.value().format,
                                 splits_off ? data.dataset_train_split : data.dataset_test_split);
    if (!sources) return sources.failure();
    preparation.value().sources = std::move(sources).value();
    for (Source& source : preparation.value().sources)
        source.dataset.cure =
            "to evaluate, dataset_test_split names one of these, test_split_size = 0.1 takes a "
            "part "
            "of the training data, eval_dataset_name names other data";
    if (splits_off) preparation.value().side = SampleChoice::Side::test;
    // The tokens are those of training, of which the anchor is no part that evaluation takes.
    if (splits_off && !config.training.anchor.empty())
        add_anchor(config.training.anchor, preparation.value());
    return preparation;
}

}  // namespace

Expected<std::vector<EvaluationData>> evaluation_data(const config::Config& config,
                                                      const HubCache& hub) {
    auto sets = config::evaluation_sets(config.data.eval_dataset_name);
    if (!sets) return sets.failure();
    if (sets.value().empty()) sets.value().push_back({});
    std::vector<EvaluationData> all;
    for (const config::EvaluationSet& set : sets.value()) {
        auto preparation = one_evaluation_set(config, hub, set.dataset);
        if (!preparation) return preparation.failure();
        all.push_back(
            {set.name,
             set.name.empty() ? "evaluation data" : format_text("evaluation data {}", set.name),
             std::move(preparation).value()});
    }
    return all;
}

fs::path cache_folder(const config::DataSettings& settings, const HubCache& hub) {
    return settings.data_cache_dir.empty() ? hub.home() / "ringshard"
                                           : fs::path(settings.data_cache_dir);
}

}  // namespace ringshard::data
