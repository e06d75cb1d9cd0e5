#pragma once

#include <string>

#include "best_model.hpp"
#include "early_stopping.hpp"
#include "event_schedule.hpp"
#include "log_history.hpp"
#include "ringshard/checkpoint/store.hpp"

namespace ringshard::train {

// Returns "trainer_state.json", the name of the state of a run in its checkpoints; of an adapter
// that trains with others "trainer_state.NAME.json".
std::string state_file(const std::string& adapter = {});

// The content of trainer_state.json besides the history.
struct TrainerState {
    int64_t num_train_epochs;  // begun ones
    int64_t train_batch_size;
    EventSchedule events;
    int64_t num_steps;
    int64_t step;
    bool asks_for_best;
    BestModel best;
    EarlyStopping early_stopping;
    std::optional<int64_t> best_checkpoint;
    std::filesystem::path output_dir;
};

// Writes trainer_state.json as transformers writes it, atomically.
std::optional<Failure> write_trainer_state(const std::filesystem::path& file,
                                           const TrainerState& state,
                                           const LogHistory::View& history);

// Writes that of a checkpoint: its log_history has the newest entries.
std::optional<Failure> write_checkpoint_state(const std::filesystem::path& file,
                                              const TrainerState& state,
                                              const LogHistory::View& history);

// Returns true if the file is the state of a run after so many steps.
bool is_state_after(const std::filesystem::path& file, int64_t step);

// Passes each entry of the log_history of such a file to `use`, as JSON text, in their order.
// Returns false if the file is missing or not one that this program wrote.
bool for_each_entry(const std::filesystem::path& file,
                    const std::function<void(const std::string&)>& use);

}  // namespace ringshard::train
