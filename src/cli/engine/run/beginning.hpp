#pragma once

#include <optional>

#include "model_in_training.hpp"
#include "run_entry.hpp"
#include "run_state.hpp"

namespace ringshard::cli {

// Time::again where SLURM has requeued this job, else Time::first.
Time first_time(const RunEntry& entry);

// How a run begins: state in memory, and an attempt that is claimed. Everything is collective over
// the world.
class Beginning {
public:
    // The arguments must outlive it.
    Beginning(const RunStart& start, RunEntry& entry, ModelInTraining& model, Faults& faults,
              watch::Watchdog& watchdog)
        : start_(start), entry_(entry), model_(model), faults_(faults), watchdog_(watchdog) {}

    // Loads first and claims last: until then this start can fail, and another job goes on.
    comm::Agreed<checkpoint::Progress> first(Origin origin);
    // Goes back to the newest checkpoint, as a new attempt.
    comm::Agreed<checkpoint::Progress> again();

    Attempt& attempt() { return *attempt_; }

    // The frozen weights, as they were loaded last; without tensors where none is frozen.
    const checkpoint::FrozenWeights& frozen() const { return frozen_; }
    // The adapter that was taken out of them, or nullptr.
    const model::InitialAdapter* initial_adapter() const {
        return pretrained_ ? pretrained_->initial_adapter() : nullptr;
    }
    // Where they are read again. This must outlive it.
    shard::FrozenSource frozen_source() const;
    // Returns true if some of them have less precision in memory than in their file.
    bool rounds_frozen() const;

private:
    comm::Agreed<checkpoint::Progress> load(Origin origin);
    comm::Agreed<checkpoint::Progress> load_newest(Time time);
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
};

}  // namespace ringshard::cli
