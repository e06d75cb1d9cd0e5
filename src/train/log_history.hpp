#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// The log_history of transformers' trainer_state.json, as JSON text with one entry to a line: about
// 250 bytes for each line of metrics. A view shares the blocks that are full, so taking one for a
// save costs the same however long the run is. For rank 0.
class LogHistory {
public:
    // A line of metrics as it is logged, or as it was read from metrics.jsonl. Lines of saves and
    // names that transformers and TRL do not log are left out.
    void add(const MetricsLine& line);

    // Returns true if a run of so many steps is complete.
    bool has_end_at(int64_t num_steps) const;
    double total_flos() const { return last_.total_flos; }

    // The history as it stands; any thread may read it.
    struct View {
        std::vector<std::shared_ptr<const std::string>> blocks{};  // entries, with commas between
        double epoch = 0;                                          // the last one that was logged
        int64_t num_tokens = 0;
        double total_flos = 0;
    };
    View view() const;

private:
    View last_;         // with the full blocks
    std::string open_;  // the block that is being filled
    bool is_empty_ = true;
    std::vector<int64_t> ends_;  // steps of the lines that end a run
};

}  // namespace ringshard::train
