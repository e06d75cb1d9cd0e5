#pragma once

#include <functional>
#include <set>
#include <vector>

#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/optim/schedule.hpp"
#include "ringshard/shard/zero.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

struct StepSums;

// How many steps a run takes.
int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch);

// The training step, and what it stands on.
class Trainer {
public:
    Trainer(const config::TrainingSettings& settings, const comm::Group& world,
            const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
            shard::Zero& zero, optim::Optimizer& optimizer, int64_t seed = 42);

    int64_t num_steps() const { return num_steps_; }
    double epochs_done() const { return loader_.epochs_done(); }
    bool is_at_epoch_end() const { return loader_.is_at_epoch_end(); }
    const checkpoint::Progress& progress() const { return progress_; }
    void resume_from(const checkpoint::Progress& progress);

    // Runs one optimizer step. If the loss or the gradient norm is not finite, the weights stay
    // unchanged and, depending on `on_nan`, the step fails, is skipped, or requests a rewind.
    // Calls `look` once, after the last kernel is queued, and adds its flags up over the world in
    // the reduction of the step. Calls `counted` before the first kernel, with the operations that
    // the slowest rank has to wait for, the same number on every rank. Collective over the world.
    comm::Agreed<StepNumbers> step(
        const std::function<ControlFlags()>& look,
        const std::function<void(double)>& counted = [](double) {});

private:
    struct Work;
    Work count(const std::vector<data::FlatBatch>& micro_batches) const;
    double count_longest(const std::vector<data::FlatBatch>& micro_batches) const;
    StepSums run(std::vector<data::FlatBatch> micro_batches, double gradient_scale,
                 std::set<std::string>& attention);
    std::string describe_non_finite(double loss, double norm) const;
    comm::Agreed<StepNumbers> leave_out(StepNumbers numbers);
    void advance(const Work& work, StepNumbers& numbers);

    config::TrainingSettings settings_;
    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    data::Loader& loader_;
    const model::Transformer& model_;
    shard::Zero& zero_;
    optim::Optimizer& optimizer_;
    uint64_t seed_;  // of dropout
    int64_t num_steps_;
    optim::Schedule schedule_;
    checkpoint::Progress progress_;
    int64_t skipped_in_a_row_ = 0;
    std::set<int64_t> non_finite_before_;  // steps for which the run has gone back
    RankTimes after_the_sums_;             // of the last step, on this rank
};

}  // namespace ringshard::train
