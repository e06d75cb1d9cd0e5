#include "trainer_state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::train {

using nlohmann::ordered_json;

namespace {

ordered_json history(const std::vector<MetricsLine>& lines) {
    ordered_json all = ordered_json::array();
    for (const MetricsLine& line : lines) {
        if (!std::isnan(number_in(line, "save_step"))) continue;  // transformers tells of no saves
        ordered_json object = ordered_json::object();
        for (const auto& [name, value] : line)
            std::visit([&](auto number) { object[name] = number; }, value);
        all.push_back(std::move(object));
    }
    return all;
}

template <class T>
ordered_json or_null(const std::optional<T>& value) {
    return value ? ordered_json(*value) : ordered_json();
}

double last_of(const std::vector<MetricsLine>& lines, std::string_view name) {
    for (auto line = lines.rbegin(); line != lines.rend(); ++line)
        if (const double value = number_in(*line, name); !std::isnan(value)) return value;
    return 0;
}

}  // namespace

std::string trainer_state(const config::Config& config, const Calendar& calendar, int64_t num_steps,
                          int64_t step, const BestModel& best,
                          std::optional<int64_t> best_checkpoint,
                          const std::filesystem::path& output_dir,
                          const std::vector<MetricsLine>& lines) {
    // Nobody asks for a best model, unless one of these is set.
    const bool has_best = config.evaluation.load_best_model_at_end ||
                          !config.evaluation.metric_for_best_model.empty() ||
                          config.checkpoint.save_strategy == config::SaveStrategy::best;
    ordered_json best_folder;
    if (has_best && best_checkpoint)
        best_folder = (output_dir / checkpoint::checkpoint_name(*best_checkpoint)).string();
    const ordered_json state{
        {"best_global_step", has_best ? or_null(best.step()) : ordered_json()},
        {"best_metric", has_best ? or_null(best.value()) : ordered_json()},
        {"best_model_checkpoint", best_folder},
        {"epoch", last_of(lines, "epoch")},
        {"eval_steps", calendar.eval_interval()},
        {"global_step", step},
        {"is_hyper_param_search", false},
        {"is_local_process_zero", true},
        {"is_world_process_zero", true},
        {"log_history", history(lines)},
        {"logging_steps", calendar.log_interval()},
        {"max_steps", num_steps},
        {"num_input_tokens_seen", static_cast<int64_t>(last_of(lines, "num_tokens"))},
        {"num_train_epochs", static_cast<int64_t>(std::ceil(config.training.num_train_epochs))},
        {"save_steps", calendar.save_interval()},
        {"stateful_callbacks", ordered_json::object()},
        {"total_flos", last_of(lines, "total_flos")},
        {"train_batch_size", config.training.per_device_train_batch_size},
        {"trial_name", nullptr},
        {"trial_params", nullptr}};
    return state.dump(2) + "\n";
}

}  // namespace ringshard::train
