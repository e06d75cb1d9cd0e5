#include "ringshard/run/loss_fingerprint.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/hash.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/adapter_runs.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/schedule_settings.hpp"
#include "ringshard/model/spec_fields.hpp"

namespace ringshard::run {

using nlohmann::json;

namespace {

// The number of steps changes earlier steps only if the learning rate depends on it.
bool rate_looks_ahead(const config::TrainingSettings& training) {
    const bool is_flat = training.lr_scheduler_type == config::Schedule::constant ||
                         training.lr_scheduler_type == config::Schedule::constant_with_warmup ||
                         training.lr_scheduler_type == config::Schedule::inverse_sqrt ||
                         training.lr_scheduler_type == config::Schedule::reduce_on_plateau ||
                         training.lr_scheduler_type == config::Schedule::deepspeed_warmup;
    const bool warms_up_by_share = training.warmup_steps > 0 && training.warmup_steps < 1;
    return !is_flat || warms_up_by_share;
}

// Of the job, or of one of the adapters that train together.
bool rates_look_ahead(const config::Settings& settings, const config::OptionTable& table) {
    return rate_looks_ahead(settings.values.training) ||
           std::ranges::any_of(config::adapter_runs(settings, table),
                               [](const config::AdapterRun& run) {
                                   return rate_looks_ahead(run.settings.values.training);
                               });
}

bool follow_evaluations(const config::Settings& settings) {
    return settings.values.training.lr_scheduler_type == config::Schedule::reduce_on_plateau;
}

// Adds the evaluations where a learning rate follows them: that of the run, or of one of the
// adapters that train together.
void add_evaluations(LossFingerprint& fingerprint, const config::Settings& settings,
                     const config::OptionTable& table, const RunData& data) {
    const auto adapters = config::adapter_runs(settings, table);
    if (!follow_evaluations(settings) &&
        std::ranges::none_of(adapters, follow_evaluations, &config::AdapterRun::settings))
        return;
    const config::Config& config = settings.values;
    const config::EvaluationSettings& evaluation = config.evaluation;
    for (const char* name : {"eval_strategy", "eval_delay", "metric_for_best_model"})
        fingerprint[name] = table.find(name)->write(config);
    const double steps = evaluation.eval_steps.value_or(config.logging.logging_steps);
    if (evaluation.eval_strategy == config::Interval::steps)
        fingerprint["eval_steps"] = shortest(steps);
    if (steps < 1) fingerprint["max_steps"] = concat(config.training.max_steps);
    std::vector<std::string> hashes;
    for (const RunData::EvaluationSet& set : data.evaluation)
        hashes.push_back(set.rows.content_hash());
    fingerprint["the data of evaluations (hash of tokens and rows)"] = join(hashes, ", ");
}

// The names of entries that are no settings begin so.
constexpr std::string_view beside_settings = "the ";

// The template that the tokenizer has, wherever its files hold it; empty: none.
std::string chat_template_in(const std::map<std::string, std::string>& files) {
    if (const auto file = files.find("chat_template.jinja"); file != files.end())
        return file->second;
    for (const auto* name : {"tokenizer_config.json", "chat_template.json"}) {
        const auto file = files.find(name);
        if (file == files.end()) continue;
        const json read = json_or_null<json>(file->second);
        const json found = read.is_object() ? read.value("chat_template", json()) : json();
        if (found.is_string()) return found.get<std::string>();
        if (!found.is_null()) return found.dump();
    }
    return {};
}

// Hashes of the files that make tokens of texts. On rank 0.
LossFingerprint text_files(const std::map<std::string, std::string>& files) {
    LossFingerprint found;
    std::string tokenizer;
    for (const auto* name :
         {"tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model", "tekken.json"})
        if (const auto file = files.find(name); file != files.end()) tokenizer += file->second;
    if (!tokenizer.empty()) found["the tokenizer (hash of its files)"] = hash_of(tokenizer);
    if (const std::string source = chat_template_in(files); !source.empty())
        found["the chat template (hash)"] = hash_of(source);
    return found;
}

}  // namespace

LossFingerprint fingerprint_of(const config::Settings& settings, const RunIdentity& run,
                               const comm::Group& world) {
    const config::TrainingSettings& training = settings.values.training;
    const config::OptionTable table;
    LossFingerprint fingerprint;
    for (const config::Option& option : table.options()) {
        if (option.loss_role == config::LossRole::none) continue;
        const std::string value = option.write(settings.values);
        if (option.loss_role == config::LossRole::always || value != option.default_text)
            fingerprint[option.name] = value;
    }
    if (rates_look_ahead(settings, table)) {
        if (training.max_steps > 0)
            fingerprint["max_steps"] = concat(training.max_steps);
        else
            fingerprint["num_train_epochs"] = shortest(training.num_train_epochs);
        std::vector<std::string> steps;
        for (const int64_t number : run.num_steps) steps.push_back(concat(number));
        fingerprint["the number of steps, on which the learning rates depend"] = join(steps, ", ");
    }
    const int64_t per_rank =
        training.per_device_train_batch_size * training.gradient_accumulation_steps;
    fingerprint
        ["the effective batch (per_device_train_batch_size x data ranks x "
         "gradient_accumulation_steps)"] = concat(per_rank * run.shape.data());
    if (settings.values.data.train_sampling_strategy == config::SamplingStrategy::group_by_length)
        fingerprint
            ["the group of train_sampling_strategy group_by_length (per_device_train_batch_size x "
             "gradient_accumulation_steps)"] = concat(per_rank);
    add_evaluations(fingerprint, settings, table, run.data);
    std::vector<std::string> sizes;
    std::vector<std::string> hashes;
    for (const data::Rows& rows : run.data.training) {
        sizes.push_back(format_text("{} rows of {} tokens", rows.size(), rows.totals().tokens));
        hashes.push_back(rows.content_hash());
    }
    fingerprint["the data"] = join(sizes, ", ");
    fingerprint["the data (hash of tokens and rows)"] = join(hashes, ", ");
    for (const auto& [name, value] : model::spec_fields(run.spec))
        fingerprint[format_text("the model's {}", name)] = value;
    const std::string texts =
        world.broadcast(world.is_root() ? to_text(text_files(run.sidecar_files)) : "");
    const json of_files = json_or_null<json>(texts);
    for (const auto& [name, hash] : of_files.items()) fingerprint[name] = hash.get<std::string>();
    return fingerprint;
}

std::string to_text(const LossFingerprint& fingerprint) { return json(fingerprint).dump(); }

std::string setting_then(const checkpoint::Checkpoint& checkpoint, const std::string& name) {
    const auto found = checkpoint.state.texts.find("curve");
    if (found == checkpoint.state.texts.end()) return {};
    const json read = json_or_null<json>(found->second);
    const json value = read.is_object() ? read.value(name, json()) : json();
    return value.is_string() ? value.get<std::string>() : "";
}

std::vector<std::string> differences(const std::string& then, const LossFingerprint& now,
                                     const char* then_word, const char* now_word) {
    const json read = json_or_null<json>(then);
    if (!read.is_object()) return {};
    LossFingerprint names = now;
    for (const auto& [name, value] : read.items()) names.emplace(name, "");
    std::vector<std::string> found;
    for (const auto& [name, ignored] : names) {
        const json stored = read.value(name, json());
        const std::string before = stored.is_string() ? stored.get<std::string>() : "";
        const auto given = now.find(name);
        const std::string value = given == now.end() ? "" : given->second;
        if (name.starts_with(beside_settings) && (stored.is_null() || given == now.end())) continue;
        const auto shown = [](const std::string& text) { return text.empty() ? "not set" : text; };
        if (before != value)
            found.push_back(format_text("{}: {} {}, {} {}", name, shown(before), then_word,
                                        shown(value), now_word));
    }
    return found;
}

std::optional<Failure> check_fingerprint(const checkpoint::Checkpoint& checkpoint,
                                         const LossFingerprint& now, bool allow_changed,
                                         bool prints) {
    const auto found = checkpoint.state.texts.find("curve");
    if (found == checkpoint.state.texts.end()) return std::nullopt;
    const std::vector<std::string> changed = differences(found->second, now, "then", "now");
    if (changed.empty()) return std::nullopt;
    const std::string folder = checkpoint.folder.string();
    const std::string list = join(changed, "\n  ");
    if (allow_changed) {
        const auto optimizer = std::ranges::find_if(
            changed, [](const std::string& line) { return line.starts_with("optim: "); });
        if (optimizer != changed.end())
            return Failure{
                ExitCode::settings,
                format_text("{}: has the moments of another optimizer ({}), whatever allow_changed "
                            "says; keep optim, or begin a run with these weights: trainer export, "
                            "and the folder as model_name_or_path",
                            folder, *optimizer)};
        if (prints)
            std::cerr << "note: allow_changed = true: " << folder
                      << " was made otherwise, and the run goes on with:\n  " << list << '\n';
        return std::nullopt;
    }
    return Failure{
        ExitCode::settings,
        format_text("{}: was made with other settings, data or another model, and the curve would "
                    "not go on as it began:\n"
                    "  {}\n"
                    "Give those of then, name another output_dir, or say --allow_changed to go on "
                    "with those of now",
                    folder, list)};
}

}  // namespace ringshard::run
