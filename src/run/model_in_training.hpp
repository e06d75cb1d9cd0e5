#pragma once

#include <optional>
#include <vector>

#include "ringshard/model/recorder.hpp"
#include "ringshard/offload/offload_stores.hpp"
#include "ringshard/run/run_inputs.hpp"
#include "ringshard/train/evaluator.hpp"
#include "ringshard/train/generator.hpp"
#include "ringshard/train/phase_marks.hpp"
#include "ringshard/train/trainer.hpp"
#include "ringshard/train/training_stack.hpp"
#include "ringshard/watch/watchdog.hpp"

namespace ringshard::run {

// Everything that holds tensors of a run, and those who work on them, from the bottom up.
struct ModelInTraining {
    // Collective over the world. The arguments, but for the offload stores, must outlive it.
    ModelInTraining(const CommandContext& context, const mesh::Mesh& mesh, const RunInputs& inputs,
                    std::vector<train::Learner> learners, offload::OffloadStores stores,
                    model::Recorder* recorder, const ops::Gemms& gemms, double device_memory,
                    watch::Watchdog& watchdog);
    void add_evaluators(const CommandContext& context, const mesh::Mesh& mesh,
                        const RunInputs& inputs);
    // Evaluations go on from these prompts too.
    void add_generator(const CommandContext& context, const mesh::Mesh& mesh,
                       const EvalPrompts& prompts, std::vector<int32_t> end_tokens);
    ~ModelInTraining();
    ModelInTraining(const ModelInTraining&) = delete;
    ModelInTraining& operator=(const ModelInTraining&) = delete;

    offload::OffloadStores offload_stores;
    train::PhaseMarks marks;
    train::TrainingStack stack;
    train::Trainer trainer;
    std::vector<train::Evaluator> evaluators;   // where the settings ask for evaluation
    std::optional<train::Generator> generator;  // where they name prompts
};

}  // namespace ringshard::run
