#pragma once

#include <string>
#include <vector>

#include "best_model.hpp"
#include "calendar.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// trainer_state.json as transformers writes it; its history are the lines of metrics so far.
std::string trainer_state(const config::Config& config, const Calendar& calendar, int64_t num_steps,
                          int64_t step, const BestModel& best,
                          std::optional<int64_t> best_checkpoint,
                          const std::filesystem::path& output_dir,
                          const std::vector<MetricsLine>& lines);

}  // namespace ringshard::train
