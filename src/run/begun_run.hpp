#pragma once

#include <map>
#include <optional>
#include <string>

#include "ringshard/run/passed_tensors.hpp"
#include "ringshard/run/placed_job.hpp"
#include "ringshard/run/run_entry.hpp"
#include "ringshard/run/run_inputs.hpp"
#include "ringshard/run/run_state.hpp"
#include "training_choices.hpp"

namespace ringshard::run {

// A run whose identity, folder and origin are known and agree. It has claimed nothing and allocated
// nothing large.
struct BegunRun {
    // Collective over the world.
    static comm::Agreed<BegunRun> begin(const CommandContext& context, PlacedJob& job,
                                        const RunInputs& inputs, const RunLearners& learners);

    // The arguments, and this, must outlive the result.
    RunStart start(const CommandContext& context, const RunInputs& inputs) const {
        return {context, inputs.model, inputs.spec, inputs.adapters, fingerprint, num_steps};
    }

    std::map<std::string, std::string> sidecar_files;  // of the result, on rank 0
    LossFingerprint fingerprint;
    int64_t num_steps;  // of the longest curve
    RunEntry entry;
    Origin origin{};
};

// Finds the tensors that pass through, which must be those of the checkpoint from which the run
// goes on, and adds the model card to the files. Collective over the world.
comm::Agreed<std::optional<PassedTensors>> complete_files(const CommandContext& context,
                                                          const RunInputs& inputs, BegunRun& begun);

}  // namespace ringshard::run
