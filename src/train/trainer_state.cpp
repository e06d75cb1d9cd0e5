#include "trainer_state.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::train {

using nlohmann::ordered_json;

namespace {

template <class T>
ordered_json or_null(const std::optional<T>& value) {
    return value ? ordered_json(*value) : ordered_json();
}

// As transformers writes its EarlyStoppingCallback.
ordered_json state_of(const EarlyStopping& early_stopping) {
    if (!early_stopping.patience()) return ordered_json::object();
    return ordered_json::object(
        {{"EarlyStoppingCallback",
          {{"args",
            {{"early_stopping_patience", *early_stopping.patience()},
             {"early_stopping_threshold", early_stopping.threshold()}}},
           {"attributes", {{"early_stopping_patience_counter", early_stopping.counter()}}}}}});
}

}  // namespace

std::string trainer_state(const config::Config& config, const EventSchedule& events,
                          int64_t num_steps, int64_t step, const BestModel& best,
                          const EarlyStopping& early_stopping,
                          std::optional<int64_t> best_checkpoint,
                          const std::filesystem::path& output_dir,
                          const LogHistory::View& history) {
    const bool has_best = asks_for_best(config);
    ordered_json best_folder;
    if (has_best && best_checkpoint)
        best_folder = (output_dir / checkpoint::checkpoint_name(*best_checkpoint)).string();
    const ordered_json state{
        {"best_global_step", has_best ? or_null(best.step()) : ordered_json()},
        {"best_metric", has_best ? or_null(best.value()) : ordered_json()},
        {"best_model_checkpoint", best_folder},
        {"epoch", history.epoch},
        {"eval_steps", events.eval_interval()},
        {"global_step", step},
        {"is_hyper_param_search", false},
        {"is_local_process_zero", true},
        {"is_world_process_zero", true},
        {"log_history", ordered_json::array()},
        {"logging_steps", events.log_interval()},
        {"max_steps", num_steps},
        {"num_input_tokens_seen", history.num_tokens},
        {"num_train_epochs", static_cast<int64_t>(std::ceil(config.training.num_train_epochs))},
        {"save_steps", events.save_interval()},
        {"stateful_callbacks", state_of(early_stopping)},
        {"total_flos", history.total_flos},
        {"train_batch_size", config.training.per_device_train_batch_size},
        {"trial_name", nullptr},
        {"trial_params", nullptr}};
    std::string text = state.dump(2) + "\n";
    constexpr std::string_view no_history = "\"log_history\": [";
    std::string entries;
    for (const auto& block : history.blocks) entries += *block;
    if (!entries.empty()) entries += "\n  ";
    return text.insert(text.find(no_history) + no_history.size(), entries);
}

}  // namespace ringshard::train
