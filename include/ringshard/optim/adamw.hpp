#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "ringshard/config/config.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::optim {

// AdamW on this rank's shards; it knows nothing of models.
class AdamW {
public:
    // The moments lie in a depot, if there is one.
    AdamW(const shard::Zero& zero, const config::TrainingSettings& settings,
          offload::Depot* depot = nullptr);

    // Updates the shards' weights; gradients are scaled first, and clear afterwards. Matrices
    // decay, vectors do not.
    void step(shard::Zero& zero, double learning_rate, double gradient_scale);

    // A step that was left out counts all the same: the moments' weights follow the run's steps.
    void skip_step() { ++steps_done_; }

    // As before the first step.
    void forget(const shard::Zero& zero);

    int64_t memory() const { return first_->bytes() + second_->bytes(); }

    // fp32 or bf16, in the slots of Zero.
    shard::FlatStore& first_moments() const { return *first_; }
    shard::FlatStore& second_moments() const { return *second_; }
    int64_t steps_done() const { return steps_done_; }
    void set_steps_done(int64_t steps) { steps_done_ = steps; }

private:
    std::unique_ptr<shard::FlatStore> first_;
    std::unique_ptr<shard::FlatStore> second_;
    config::TrainingSettings settings_;
    int64_t steps_done_ = 0;
};

// What gradients are scaled with so that their norm is at most max_norm; 1 where max_norm is 0.
double clip_scale(double norm, double max_norm);

}  // namespace ringshard::optim
