#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "beginning.hpp"
#include "begun_run.hpp"
#include "model_in_training.hpp"
#include "ringshard/checkpoint/fork.hpp"
#include "ringshard/job/deadline.hpp"
#include "ringshard/run/job_proof.hpp"
#include "ringshard/run/references.hpp"
#include "ringshard/train/training_loop.hpp"

namespace ringshard::run {

// The stages of a run before its weights. All outlive it.
struct RunStages {
    const CommandContext& context;  // with the settings that were chosen
    PlacedJob& job;
    const RunInputs& inputs;
    TrainingChoices& choices;
    const RunLearners& learners;
    BegunRun& begun;
    const std::optional<Certificate>& certificate;
};

// A run with everything that it needs allocated. It takes attempts until it ends. All functions are
// collective over the world.
class TrainingRun {
public:
    // `activation_bytes`: of a rank's activations, offloaded.
    static comm::Agreed<std::unique_ptr<TrainingRun>> allocate(const RunStages& stages,
                                                               std::optional<PassedTensors> passed,
                                                               int64_t activation_bytes);

    // Trains to the end; after a rewind from the newest checkpoint again. Once.
    std::optional<comm::AgreedFailure> train_to_the_end(const job::Deadline& deadline);

    TrainingRun(const RunStages& stages, std::optional<PassedTensors> passed,
                offload::OffloadStores stores);

private:
    comm::Agreed<train::Ending> take_attempt(Beginning& beginning,
                                             const checkpoint::Progress& progress,
                                             const job::Deadline& deadline);
    std::optional<comm::AgreedFailure> add_weights_to_checkpoints(const Beginning& beginning);

    comm::Agreed<std::string> compute_references();
    // Gives all rows that are pairs their reference.
    std::optional<comm::AgreedFailure> give_references(const Beginning& beginning);
    comm::Agreed<train::ReferenceLogProbs> reference_of(const data::Rows& rows,
                                                        const std::filesystem::path& resumed_from);

    RunStages stages_;
    std::optional<PassedTensors> passed_;
    ModelInTraining model_;
    hub::ExportForm form_;       // of the model that the run writes
    checkpoint::Extras extras_;  // of its checkpoints
    double peak_operations_;     // of this rank, per second
    std::vector<std::string> hosts_;
    bool has_asked_for_references_ = false;  // a save, or the result
    std::optional<RunReferences> references_;
    std::optional<checkpoint::Parent> parent_;  // on rank 0, until it is recorded
};

}  // namespace ringshard::run
