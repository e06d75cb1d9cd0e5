#include "trainer_state.hpp"

#include <fcntl.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/manifest.hpp"

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

constexpr std::string_view no_history = "\"log_history\": [";

std::string print(const TrainerState& state, const LogHistory::View& history) {
    const EventSchedule& events = state.events;
    ordered_json best_folder;
    if (state.asks_for_best && state.best_checkpoint)
        best_folder =
            (state.output_dir / checkpoint::checkpoint_name(*state.best_checkpoint)).string();
    const ordered_json object{
        {"best_global_step", state.asks_for_best ? or_null(state.best.step()) : ordered_json()},
        {"best_metric", state.asks_for_best ? or_null(state.best.value()) : ordered_json()},
        {"best_model_checkpoint", best_folder},
        {"epoch", history.epoch},
        {"eval_steps", events.eval_interval()},
        {"global_step", state.step},
        {"is_hyper_param_search", false},
        {"is_local_process_zero", true},
        {"is_world_process_zero", true},
        {"log_history", ordered_json::array()},
        {"logging_steps", events.log_interval()},
        {"max_steps", state.num_steps},
        {"num_input_tokens_seen", history.num_tokens},
        {"num_train_epochs", state.num_train_epochs},
        {"save_steps", events.save_interval()},
        {"stateful_callbacks", state_of(state.early_stopping)},
        {"total_flos", history.total_flos},
        {"train_batch_size", state.train_batch_size},
        {"trial_name", nullptr},
        {"trial_params", nullptr}};
    return object.dump(2) + "\n";
}

// Writes the entries of `history` from `begin` on.
std::optional<Failure> write(const std::filesystem::path& file, const std::string& text,
                             const LogHistory::View& history, int64_t begin) {
    auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    int64_t offset = 0;
    const auto put = [&](std::string_view part) {
        auto failure = opened.value().write_at(std::as_bytes(std::span(part)), offset);
        offset += std::ssize(part);
        return failure;
    };
    const size_t entries = text.find(no_history) + no_history.size();
    if (auto failure = put(std::string_view(text).substr(0, entries))) return failure;
    if (auto failure = history.write_to(opened.value(), offset, begin)) return failure;
    if (!history.is_empty())
        if (auto failure = put("\n  ")) return failure;
    if (auto failure = put(std::string_view(text).substr(entries))) return failure;
    return opened.value().flush();
}

std::optional<Failure> write_atomically(const std::filesystem::path& file,
                                        const TrainerState& state, const LogHistory::View& history,
                                        int64_t begin) {
    std::filesystem::path temporary = file;
    temporary += work_mark();
    if (auto failure = write(temporary, print(state, history), history, begin)) {
        std::error_code ignored;
        std::filesystem::remove(temporary, ignored);
        return failure;
    }
    return rename_atomically(temporary, file);
}

}  // namespace

std::string state_file(const std::string& adapter) {
    return adapter.empty() ? "trainer_state.json" : format_text("trainer_state.{}.json", adapter);
}

std::optional<Failure> write_trainer_state(const std::filesystem::path& file,
                                           const TrainerState& state,
                                           const LogHistory::View& history) {
    return write_atomically(file, state, history, 0);
}

std::optional<Failure> write_checkpoint_state(const std::filesystem::path& file,
                                              const TrainerState& state,
                                              const LogHistory::View& history) {
    return write_atomically(file, state, history, history.newest);
}

bool is_state_after(const std::filesystem::path& file, int64_t step) {
    std::ifstream lines(file);
    const std::string wanted = format_text("  \"global_step\": {},", step);
    for (std::string line; std::getline(lines, line) && line.find(no_history) == std::string::npos;)
        if (line == wanted) return true;
    return false;
}

bool for_each_entry(const std::filesystem::path& file,
                    const std::function<void(const std::string&)>& use) {
    std::ifstream lines(file);
    std::string line;
    while (std::getline(lines, line) && line.find(no_history) == std::string::npos) {
    }
    if (line.find(no_history) == std::string::npos) return false;
    while (std::getline(lines, line) && line.starts_with("    {")) {
        if (line.ends_with(',')) line.pop_back();
        use(line.substr(4));
    }
    return lines.good() || line.starts_with("}");
}

}  // namespace ringshard::train
