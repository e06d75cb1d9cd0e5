#include "loss_fingerprint.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/option_table.hpp"

namespace ringshard::cli {

using nlohmann::json;

namespace {

// The number of steps changes earlier steps only if the learning rate depends on it.
bool rate_looks_ahead(const config::TrainingSettings& training) {
    const bool is_flat = training.lr_scheduler_type == config::Schedule::constant ||
                         training.lr_scheduler_type == config::Schedule::constant_with_warmup ||
                         training.lr_scheduler_type == config::Schedule::inverse_sqrt ||
                         training.lr_scheduler_type == config::Schedule::deepspeed_warmup;
    const bool warms_up_by_share = training.warmup_steps > 0 && training.warmup_steps < 1;
    return !is_flat || warms_up_by_share;
}

}  // namespace

LossFingerprint fingerprint_of(const config::Settings& settings, const mesh::MeshShape& shape,
                               const RunData& data) {
    const config::TrainingSettings& training = settings.values.training;
    const config::OptionTable table;
    LossFingerprint fingerprint;
    for (const config::Option& option : table.options()) {
        if (option.loss_role == config::LossRole::none) continue;
        const std::string value = option.write(settings.values);
        if (option.loss_role == config::LossRole::always || value != option.default_text)
            fingerprint[option.name] = value;
    }
    if (rate_looks_ahead(training)) {
        if (training.max_steps > 0)
            fingerprint["max_steps"] = concat(training.max_steps);
        else
            fingerprint["num_train_epochs"] = shortest(training.num_train_epochs);
    }
    fingerprint
        ["the effective batch (per_device_train_batch_size x data ranks x "
         "gradient_accumulation_steps)"] =
            concat(training.per_device_train_batch_size * shape.data() *
                   training.gradient_accumulation_steps);
    std::vector<std::string> sizes;
    for (const data::Rows* rows : data.all_training())
        sizes.push_back(format_text("{} rows of {} tokens", rows->size(), rows->totals().tokens));
    fingerprint["the data"] = join(sizes, ", ");
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
        const auto shown = [](const std::string& text) { return text.empty() ? "not set" : text; };
        if (before != value)
            found.push_back(format_text("{}: {} {}, {} {}", name, shown(before), then_word,
                                        shown(value), now_word));
    }
    return found;
}

std::optional<Failure> check_fingerprint(const checkpoint::Checkpoint& checkpoint,
                                         const LossFingerprint& now, bool allow_changed) {
    const auto found = checkpoint.state.texts.find("curve");
    if (allow_changed || found == checkpoint.state.texts.end()) return std::nullopt;
    const std::vector<std::string> changed = differences(found->second, now, "then", "now");
    if (changed.empty()) return std::nullopt;
    return Failure{
        ExitCode::settings,
        format_text("{}: was made with other settings, and the curve would not go on as it began:\n"
                    "  {}\n"
                    "Give the settings of then, name another output_dir, or say --allow_changed to "
                    "go on with those of now",
                    checkpoint.folder.string(), join(changed, "\n  "))};
}

}  // namespace ringshard::cli
