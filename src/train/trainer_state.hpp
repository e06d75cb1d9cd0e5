#pragma once

#include <string>

#include "best_model.hpp"
#include "early_stopping.hpp"
#include "event_schedule.hpp"
#include "log_history.hpp"
#include "ringshard/checkpoint/store.hpp"

namespace ringshard::train {

// trainer_state.json as transformers writes it.
std::string trainer_state(const config::Config& config, const EventSchedule& events,
                          int64_t num_steps, int64_t step, const BestModel& best,
                          const EarlyStopping& early_stopping,
                          std::optional<int64_t> best_checkpoint,
                          const std::filesystem::path& output_dir, const LogHistory::View& history);

}  // namespace ringshard::train
