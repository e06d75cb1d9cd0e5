#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/optim/plateau.hpp"
#include "ringshard/optim/schedule.hpp"
#include "ringshard/shard/zero.hpp"
#include "ringshard/train/numbers.hpp"
#include "ringshard/train/reference_log_probs.hpp"

namespace ringshard::train {

class StepDocuments;
struct StepSums;
struct CurveWork;
struct StepWork;
using MicroBatches = std::vector<data::FlatBatch>;

// Returns the number of steps of a run.
int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch);

// One learner on rows of its own: the model, or one of several adapters beside it.
struct Curve {
    config::TrainingSettings settings;
    data::Loader& loader;
    int64_t seed = 42;   // of dropout
    std::string name{};  // of the adapter, among several
};

// The training step. Several curves are those of adapters that train together: a micro-batch has
// the rows of all of them, and each has its own loss, norm, rate and number of steps.
class Trainer {
public:
    // `adapters_at_a_time`: those that have rows in one micro-batch; unset: all of them.
    Trainer(const comm::Group& world, const mesh::Mesh& mesh, std::vector<Curve> curves,
            const model::Transformer& model, shard::Zero& zero, optim::Optimizer& optimizer,
            std::optional<int64_t> adapters_at_a_time = std::nullopt);
    Trainer(const config::TrainingSettings& settings, const comm::Group& world,
            const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
            shard::Zero& zero, optim::Optimizer& optimizer, int64_t seed = 42);
    ~Trainer();

    // From now on the documents of each step can be looked at, until the next one.
    void watch_documents();
    const StepDocuments& documents() const { return *documents_; }
    // For rows that are pairs, before the first step.
    void give_reference(ReferenceLogProbs reference) { reference_ = std::move(reference); }
    // Lets faults spoil the numbers of steps, for tests. They must outlive this.
    void seed_faults(Faults& faults) { faults_ = &faults; }

    int64_t num_steps() const { return longest().num_steps; }
    // The same, if no curve ends early.
    int64_t planned_steps() const;
    int64_t num_steps_of(size_t curve) const { return curves_[curve].num_steps; }
    int64_t planned_steps_of(size_t curve) const { return curves_[curve].planned_steps; }
    const std::string& name_of(size_t curve) const { return curves_[curve].name; }
    // Curves beside the model; 0 where it trains itself, or with one adapter.
    size_t num_adapters() const { return is_joint() ? curves_.size() : 0; }
    // Of the curve that takes most steps.
    double epochs_done() const { return longest().loader.epochs_done(); }
    double epochs_done_of(size_t curve) const { return curves_[curve].loader.epochs_done(); }
    bool is_at_epoch_end() const { return longest().loader.is_at_epoch_end(); }
    bool is_at_epoch_end_of(size_t curve) const { return curves_[curve].loader.is_at_epoch_end(); }
    // Makes the last step the last one of a curve, whatever its settings say.
    void end_early(size_t curve);
    bool has_ended_early(size_t curve) const {
        return progress_.adapters.at(curve).last_step.has_value();
    }
    // Whether the learning rate of a curve follows its evaluations, and one of these.
    bool follows_evaluations(size_t curve) const { return curves_[curve].plateau.has_value(); }
    void take_metric(size_t curve, double value);
    const config::TrainingSettings& settings_of(size_t curve) const {
        return curves_[curve].settings;
    }
    const checkpoint::Progress& progress() const { return progress_; }
    void resume_from(const checkpoint::Progress& progress);

    // Runs one optimizer step. If the loss or the gradient norm is not finite, the weights stay
    // unchanged and, depending on `on_nan`, the step ends the run, is skipped, or requests a
    // rewind. Calls `look` once, after the last kernel is queued, and adds its flags up over the
    // world in the reduction of the step. Calls `counted` before the first kernel, with the
    // operations that the slowest rank has to wait for, the same number on every rank. Collective
    // over the world.
    StepNumbers step(
        const std::function<ControlFlags()>& look,
        const std::function<void(double)>& counted = [](double) {});

private:
    struct RunningCurve {
        explicit RunningCurve(const Curve& curve);
        config::TrainingSettings settings;
        data::Loader& loader;
        uint64_t seed;
        std::string name;
        int64_t planned_steps;  // by its settings
        int64_t num_steps;
        optim::Schedule schedule;
        std::optional<optim::Plateau> plateau;  // in place of the schedule
        int64_t skipped_in_a_row = 0;
        int64_t num_tokens = 0;
    };
    bool is_joint() const { return curves_.size() > 1 || !curves_.front().name.empty(); }
    void resume_plateau(size_t curve);
    std::optional<optim::PlateauState>& stored_plateau(size_t curve);
    const RunningCurve& longest() const;
    bool trains(size_t curve) const { return progress_.step < curves_[curve].num_steps; }
    int64_t num_rows(size_t curve) const;
    uint64_t dropout_of_step(size_t curve) const;
    data::FlatBatch join(const std::vector<MicroBatches>& of_curves, size_t number,
                         std::span<const size_t> some) const;
    MicroBatches join(const std::vector<MicroBatches>& of_curves) const;
    StepSums run(MicroBatches micro_batches, const StepWork& work,
                 std::set<std::string>& attention);
    StepNumbers numbers_of(size_t curve, const CurveWork& work, const StepSums& sums) const;
    void add_means(StepNumbers& numbers) const;
    std::optional<comm::AgreedFailure> leave_out(size_t curve, StepNumbers& numbers);
    std::optional<comm::AgreedFailure> update(StepNumbers& numbers);
    std::vector<int64_t> take_maxima() const;
    void add_to_history(std::vector<int64_t> maxima) const;
    void advance(const StepWork& work, StepNumbers& numbers);

    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    const model::Transformer& model_;
    shard::Zero& zero_;
    optim::Optimizer& optimizer_;
    std::vector<RunningCurve> curves_;
    size_t adapters_at_a_time_;
    checkpoint::Progress progress_;
    std::set<int64_t> non_finite_before_;       // steps for which the run has gone back
    RankTimes after_the_sums_;                  // of the last step, on this rank
    std::unique_ptr<StepDocuments> documents_;  // null: nobody looks at them
    ReferenceLogProbs reference_;               // of rows that are pairs
    Faults* faults_ = nullptr;                  // null: none is seeded
};

}  // namespace ringshard::train
