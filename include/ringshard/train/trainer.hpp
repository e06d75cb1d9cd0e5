#pragma once

#include <functional>
#include <set>
#include <vector>

#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/optim/schedule.hpp"
#include "ringshard/shard/zero.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// How many steps a run takes.
int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch);

// The training step, and what it stands on.
class Trainer {
public:
    Trainer(const config::TrainingSettings& settings, const comm::Group& world,
            const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
            shard::Zero& zero, optim::Optimizer& optimizer);

    int64_t num_steps() const { return num_steps_; }
    double epochs_done() const { return loader_.epochs_done(); }
    bool is_at_epoch_end() const { return loader_.is_at_epoch_end(); }
    const checkpoint::Progress& progress() const { return progress_; }
    void go_on_from(const checkpoint::Progress& progress);

    // One update of the weights; none where loss or gradient are not finite numbers: then it fails,
    // or says in its numbers that it was skipped or has to be done again from a checkpoint, as
    // on_nan has it. Collective over the world. `wishes` is asked once for numbers that are added
    // up over the world on the way. `counted` is called before the first kernel, with the
    // operations that the slowest rank has to wait for, the same number on every rank.
    comm::Agreed<StepNumbers> step(
        const std::function<std::vector<double>()>& wishes,
        const std::function<void(double)>& counted = [](double) {});

private:
    struct Work;
    Work count(const std::vector<data::FlatBatch>& micro_batches) const;
    double count_longest(const std::vector<data::FlatBatch>& micro_batches) const;
    std::string what_went_bad(double loss, double norm) const;

    config::TrainingSettings settings_;
    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    data::Loader& loader_;
    const model::Transformer& model_;
    shard::Zero& zero_;
    optim::Optimizer& optimizer_;
    int64_t num_steps_;
    optim::Schedule schedule_;
    checkpoint::Progress progress_;
    int64_t skipped_in_a_row_ = 0;
    std::set<int64_t> went_bad_before_;  // steps for which the run has gone back
    RankTimes after_the_sums_;           // of the last step, on this rank
};

}  // namespace ringshard::train
