#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ringshard/config/settings.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/model/recorder.hpp"
#include "ringshard/run/cpu_gemm.hpp"
#include "ringshard/run/placed_job.hpp"
#include "ringshard/run/run_inputs.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::run {

// What a training computes with, chosen from its job and its inputs.
struct TrainingChoices {
    std::unique_ptr<model::Recorder> recorder;  // nullptr: nothing is recorded
    ChosenGemms gemms;
    config::Settings settings;  // with the micro-batch and the activation policies of the run
};

// Chooses the libraries of matrix products, kernels and activation policies, and reports them.
// Collective over the world.
comm::Agreed<TrainingChoices> make_choices(const CommandContext& given, const PlacedJob& job,
                                           const RunInputs& inputs);

// The learners of a run, and the loaders of their rows.
struct RunLearners {
    RunLearners(const CommandContext& context, const PlacedJob& job, const RunInputs& inputs);

    std::vector<int64_t> num_steps() const;  // of each learner

    std::deque<data::Loader> loaders;
    std::vector<train::Learner> learners;
};

}  // namespace ringshard::run
