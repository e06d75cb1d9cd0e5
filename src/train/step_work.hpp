#pragma once

#include <vector>

#include "ringshard/attention/sequence_partition.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/train/numbers.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

// The work of a learner in a step, over the world.
struct LearnerWork {
    double targets;         // at least one: it is a divisor, as the next one
    double weight;          // of all targets
    model::AllPairs pairs;  // of those of the step, but for the baseline
    double counted_tokens;
    double operations;
    bool has_targets;  // with a weight above 0: otherwise there is nothing to learn
};

// The work of a step, over the world. It is known before the pass.
struct StepWork {
    std::vector<LearnerWork> learners;
    double filler_tokens;
    attention::RingWork attention;  // of all rings and micro-batches

    StepNumbers numbers() const;
    // By which the losses of each learner are multiplied.
    std::vector<double> loss_scales() const;
};

// Counts the micro-batches of each learner, and the batches that join them. One rank of every
// sequence group counts. Collective over the world.
StepWork count_work(const comm::Group& world, const mesh::Mesh& mesh,
                    const model::Transformer& model, const std::vector<MicroBatches>& of_learners,
                    const MicroBatches& joined);

// Operations of a step if each micro-batch takes as long as on the rank that does most for it: one
// long row holds up all ranks, however short the others' are. Collective over the world.
double count_longest(const comm::Group& world, const model::Transformer& model,
                     const MicroBatches& micro_batches);

}  // namespace ringshard::train
