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
#include "ringshard/shard/zero.hpp"
#include "ringshard/train/learner.hpp"
#include "ringshard/train/numbers.hpp"
#include "ringshard/train/reference_log_probs.hpp"

namespace ringshard::train {

class StepDocuments;
struct LearnerWork;
struct StepSums;
struct StepWork;
using MicroBatches = std::vector<data::FlatBatch>;

// The training step. A micro-batch has the rows of all learners, and each of these has its own
// loss, norm, rate and number of steps.
class Trainer {
public:
    // `learners_at_a_time`: those that have rows in one micro-batch; unset: all of them.
    Trainer(const comm::Group& world, const mesh::Mesh& mesh, std::vector<Learner> learners,
            const model::Transformer& model, shard::Zero& zero, optim::Optimizer& optimizer,
            std::optional<int64_t> learners_at_a_time = std::nullopt);
    Trainer(const config::TrainingSettings& settings, const comm::Group& world,
            const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
            shard::Zero& zero, optim::Optimizer& optimizer, int64_t seed = 42);
    ~Trainer();

    // From now on the documents of each step can be looked at, until the next one. For one learner.
    void watch_documents();
    const StepDocuments& documents() const { return *documents_; }
    // For rows of answers, before the first step.
    void give_reference(ReferenceLogProbs reference) { reference_ = std::move(reference); }
    // Lets faults spoil the numbers of steps, for tests. They must outlive this.
    void seed_faults(Faults& faults) { faults_ = &faults; }

    const std::vector<Learner>& learners() const { return learners_; }
    // Of the learner that takes most steps.
    int64_t num_steps() const { return longest().num_steps(); }
    int64_t planned_steps() const;  // the same, if no learner ends early
    double epochs_done() const { return longest().epochs_done(); }
    bool is_at_epoch_end() const { return longest().is_at_epoch_end(); }
    int64_t steps_done() const { return steps_done_; }
    checkpoint::Progress progress() const;
    void resume_from(const checkpoint::Progress& progress);
    // Makes the last step the last one of a learner.
    void end_early(size_t learner) { learners_[learner].end_at(steps_done_); }
    // Gives a learner the evaluation that its learning rate follows.
    void take_metric(size_t learner, double value) { learners_[learner].take_metric(value); }

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
    const Learner& longest() const;
    bool trains(const Learner& learner) const { return learner.trains_after(steps_done_); }
    data::FlatBatch join(const std::vector<MicroBatches>& of_learners, size_t number,
                         std::span<const size_t> some) const;
    MicroBatches join(const std::vector<MicroBatches>& of_learners) const;
    model::TokenBatch shard(data::FlatBatch batch, const model::AllPairs& pairs) const;
    model::AllPairs all_pairs(const MicroBatches& micro_batches, const StepWork& work) const;
    std::vector<model::EmbeddedDocuments::Learned> embed(const MicroBatches& micro_batches) const;
    StepSums run(MicroBatches micro_batches, const StepWork& work,
                 std::set<std::string>& attention);
    StepNumbers numbers_of(size_t learner, const LearnerWork& work, const StepSums& sums) const;
    void take(const StepWork& work, StepSums sums, StepNumbers& numbers) const;
    void set_means(StepNumbers& numbers) const;
    std::optional<comm::AgreedFailure> leave_out(Learner& learner, StepNumbers& numbers);
    std::optional<comm::AgreedFailure> update(StepNumbers& numbers);
    std::vector<int64_t> take_maxima() const;
    void add_to_history(std::vector<int64_t> maxima) const;
    void advance(const StepWork& work, StepNumbers& numbers);

    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    const model::Transformer& model_;
    shard::Zero& zero_;
    optim::Optimizer& optimizer_;
    std::vector<Learner> learners_;
    size_t learners_at_a_time_;
    int64_t steps_done_ = 0;
    std::optional<checkpoint::RunSums> sums_;
    std::set<int64_t> non_finite_before_;       // steps for which the run has gone back
    RankTimes after_the_sums_;                  // of the last step, on this rank
    std::unique_ptr<StepDocuments> documents_;  // null: nobody looks at them
    ReferenceLogProbs reference_;               // of rows of answers
    Faults* faults_ = nullptr;                  // null: none is seeded
};

}  // namespace ringshard::train
