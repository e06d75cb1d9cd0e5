#pragma once

#include <future>
#include <optional>
#include <vector>

#include "ringshard/data/rows.hpp"
#include "ringshard/data/sample_order.hpp"

namespace ringshard::data {

// Position of a run in the data: samples done in the current epoch, over all data ranks. It stays
// valid at any number of ranks with the same global batch.
struct LoaderState {
    int64_t epoch = 0;
    int64_t samples_done = 0;
    bool operator==(const LoaderState&) const = default;
};

// Loads the micro-batches of a step for one data rank; all ranks of a sequence group get the same
// ones. A thread prepares the next step during the current one.
class Loader {
public:
    Loader(const Rows& rows, const SamplerOptions& sampler, int64_t data_rank,
           int64_t accumulation);
    ~Loader();
    Loader(const Loader&) = delete;

    const Rows& rows() const { return rows_; }
    int64_t steps_per_epoch() const;
    std::vector<FlatBatch> next_step();  // the last step of an epoch may have fewer micro-batches
    // Returns the rows of a step over all data ranks.
    const std::vector<int64_t>& rows_of_step() const { return rows_of_step_; }

    const LoaderState& state() const { return state_; }
    void go_to(const LoaderState& state);
    // Returns the epochs done, with the fraction of the current one: its micro-batches done /
    // micro-batches per epoch.
    double epochs_done() const;
    bool is_at_epoch_end() const { return state_.samples_done == 0; }

private:
    struct Step {
        std::vector<FlatBatch> micro_batches;
        std::vector<int64_t> rows;
        LoaderState after;
    };
    void draw_order(int64_t epoch);
    Step read_step(LoaderState state);
    void read_ahead();

    const Rows& rows_;
    SamplerOptions sampler_;
    int64_t data_rank_;
    int64_t accumulation_;
    LoaderState state_;
    std::vector<int64_t> rows_of_step_;
    // Only the reading thread, of which there is one at a time, uses these.
    std::optional<EpochOrder> order_;
    int64_t order_epoch_ = -1;
    std::future<Step> next_;
};

}  // namespace ringshard::data
