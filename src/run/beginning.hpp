#pragma once

#include <map>
#include <optional>
#include <string>

#include "model_in_training.hpp"
#include "ringshard/run/run_entry.hpp"
#include "ringshard/run/run_state.hpp"

namespace ringshard::run {

// Returns StartKind::restart if SLURM has requeued this job, else StartKind::first.
StartKind start_kind(const RunEntry& entry);

// Starts a run: loads its state and claims an attempt. All functions are collective over the world.
class Beginning {
public:
    // The arguments must outlive it.
    Beginning(const RunStart& start, RunEntry& entry, ModelInTraining& model, Faults& faults,
              watch::Watchdog& watchdog)
        : start_(start), entry_(entry), model_(model), faults_(faults), watchdog_(watchdog) {}

    // Loads, then claims: until the claim this start can fail without an effect on another job.
    comm::Agreed<checkpoint::Progress> first(Origin origin);
    // Returns to the newest checkpoint, as a new attempt.
    comm::Agreed<checkpoint::Progress> again();

    Attempt& attempt() { return *attempt_; }

    // The frozen weights as loaded last; without tensors if none is frozen.
    const checkpoint::FrozenWeights& frozen() const { return frozen_; }
    // The folder of the checkpoint from which the run goes on; empty: it begins.
    const std::filesystem::path& resumed_from() const { return resumed_from_; }
    // The texts of that checkpoint.
    const std::map<std::string, std::string>& resumed_texts() const { return resumed_texts_; }
    // The adapter that was subtracted from them (PiSSA, OLoRA), or nullptr.
    const peft::InitialAdapter* initial_adapter() const {
        return pretrained_ ? pretrained_->initial_adapter() : nullptr;
    }
    // Returns the source from which an export reads them again. This must outlive it.
    shard::FrozenSource frozen_source() const;
    // Returns true if some of them have less precision in memory than in their file.
    bool rounds_frozen() const;

private:
    comm::Agreed<checkpoint::Progress> load(Origin origin);
    // Takes the maxima of products in FP8 that the checkpoint has, and says where they do not fit
    // the settings.
    std::optional<comm::AgreedFailure> load_maxima(
        const std::optional<checkpoint::Checkpoint>& checkpoint) const;
    comm::Agreed<checkpoint::Progress> load_newest(StartKind kind);
    template <class Load>
    comm::Agreed<checkpoint::Progress> after_claim(Load load);

    const RunStart& start_;
    RunEntry& entry_;
    ModelInTraining& model_;
    Faults& faults_;
    watch::Watchdog& watchdog_;
    std::optional<Attempt> attempt_;
    std::optional<Pretrained> pretrained_;
    checkpoint::FrozenWeights frozen_;
    std::filesystem::path resumed_from_;
    std::map<std::string, std::string> resumed_texts_;
};

}  // namespace ringshard::run
