#pragma once

#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/adamw.hpp"
#include "ringshard/optim/schedule.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::train {

// What a step came to, over all ranks and micro-batches.
struct StepNumbers {
    int64_t step = 0;  // from 1
    double epoch = 0;
    double loss = 0;       // per target token, nats
    double grad_norm = 0;  // before clipping
    double learning_rate = 0;
    double entropy = 0;
    double accuracy = 0;
    int64_t num_tokens = 0;   // of the run so far
    int64_t step_tokens = 0;  // of this step
    double seconds = 0;
};

// The training step, and what it stands on.
class Trainer {
public:
    Trainer(const config::TrainingSettings& settings, const comm::Group& world,
            const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
            shard::Zero& zero, optim::AdamW& optimizer);

    int64_t num_steps() const { return num_steps_; }
    bool is_at_epoch_end() const { return loader_.is_at_epoch_end(); }
    const checkpoint::Progress& progress() const { return progress_; }
    void go_on_from(const checkpoint::Progress& progress);

    // One update of the weights; none, and a failure, where loss or gradient are not finite
    // numbers. Collective over the world.
    comm::Agreed<StepNumbers> step();

private:
    config::TrainingSettings settings_;
    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    data::Loader& loader_;
    const model::Transformer& model_;
    shard::Zero& zero_;
    optim::AdamW& optimizer_;
    int64_t num_steps_;
    optim::Schedule schedule_;
    checkpoint::Progress progress_;
};

}  // namespace ringshard::train
