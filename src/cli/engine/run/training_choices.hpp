#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "cpu_gemm.hpp"
#include "placed_job.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/model/recorder.hpp"
#include "ringshard/train/trainer.hpp"
#include "run_inputs.hpp"

namespace ringshard::cli {

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

// The curves of a run (the model, or the adapters that train together), and the loaders of their
// rows.
struct RunCurves {
    RunCurves(const CommandContext& context, const PlacedJob& job, const RunInputs& inputs);

    std::vector<int64_t> num_steps() const;  // of each curve

    std::deque<data::Loader> loaders;
    std::vector<train::Curve> curves;
};

}  // namespace ringshard::cli
