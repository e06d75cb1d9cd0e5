#include "ringshard/train/trainer.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>

#include "all_embeddings.hpp"
#include "baseline.hpp"
#include "non_finite.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/device_copies.hpp"
#include "ringshard/train/micro_batches.hpp"
#include "shard_batch.hpp"
#include "step_clock.hpp"
#include "step_documents.hpp"
#include "step_sums.hpp"
#include "step_work.hpp"

namespace ringshard::train {

Trainer::Trainer(const comm::Group& world, const mesh::Mesh& mesh, std::vector<Learner> learners,
                 const model::Transformer& model, shard::Zero& zero, optim::Optimizer& optimizer,
                 std::optional<int64_t> learners_at_a_time)
    : world_(world),
      mesh_(mesh),
      model_(model),
      zero_(zero),
      optimizer_(optimizer),
      learners_(std::move(learners)),
      learners_at_a_time_(narrow<size_t>(learners_at_a_time.value_or(std::ssize(learners_)))) {
    RINGSHARD_CHECK(learners_.size() == zero.num_variants(), "{} learners of {} variants",
                    learners_.size(), zero.num_variants());
}

Trainer::Trainer(const config::TrainingSettings& settings, const comm::Group& world,
                 const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
                 shard::Zero& zero, optim::Optimizer& optimizer, int64_t seed)
    : Trainer(world, mesh, {Learner({.settings = settings, .loader = loader, .seed = seed})}, model,
              zero, optimizer) {}

Trainer::~Trainer() = default;

void Trainer::watch_documents() {
    RINGSHARD_CHECK(learners_.size() == 1, "the rows of several learners are not told apart");
    documents_ = std::make_unique<StepDocuments>(mesh_);
}

const Learner& Trainer::longest() const {
    return *std::ranges::max_element(learners_, {}, &Learner::num_steps);
}

int64_t Trainer::planned_steps() const {
    return std::ranges::max_element(learners_, {}, &Learner::planned_steps)->planned_steps();
}

checkpoint::Progress Trainer::progress() const {
    checkpoint::Progress progress{steps_done_, sums_};
    for (const Learner& learner : learners_) progress.learners.push_back(learner.progress());
    return progress;
}

void Trainer::resume_from(const checkpoint::Progress& progress) {
    RINGSHARD_CHECK(progress.step == 0 || progress.learners.size() == learners_.size(),
                    "the checkpoint is of {} learners", progress.learners.size());
    steps_done_ = progress.step;
    sums_ = progress.sums;
    if (progress.step == 0) sums_.emplace();
    after_the_sums_ = {};
    for (size_t learner = 0; learner < learners_.size(); ++learner)
        learners_[learner].go_to(
            progress.step == 0 ? checkpoint::Progress::OfLearner() : progress.learners[learner],
            progress.step);
}

// Joins micro-batch `number` of some learners; the others have no rows in it.
data::FlatBatch Trainer::join(const std::vector<MicroBatches>& of_learners, size_t number,
                              std::span<const size_t> some) const {
    std::vector<data::LearnerBatch> parts(learners_.size());
    for (size_t learner = 0; learner < parts.size() && model_.has_dropout(); ++learner)
        parts[learner].dropout = learners_[learner].dropout_of(steps_done_);
    for (const size_t learner : some) parts[learner].batch = &of_learners[learner][number];
    return data::join_batches(parts);
}

// Joins the micro-batches of the learners, number by number. An epoch's last step may have fewer
// micro-batches of one learner than of another.
MicroBatches Trainer::join(const std::vector<MicroBatches>& of_learners) const {
    size_t count = 0;
    for (const MicroBatches& batches : of_learners) count = std::max(count, batches.size());
    MicroBatches joined;
    for (size_t number = 0; number < count; ++number) {
        std::vector<size_t> present;
        for (size_t learner = 0; learner < of_learners.size(); ++learner)
            if (number < of_learners[learner].size()) present.push_back(learner);
        for (size_t first = 0; first < present.size(); first += learners_at_a_time_)
            joined.push_back(
                join(of_learners, number,
                     std::span(present).subspan(
                         first, std::min(learners_at_a_time_, present.size() - first))));
    }
    return joined;
}

namespace {

// The statistics of each learner's target tokens in a micro-batch.
std::vector<at::Tensor> by_learner(const at::Tensor& token_stats,
                                   const std::vector<int64_t>& target_bounds) {
    std::vector<at::Tensor> of_learners;
    for (size_t learner = 0; learner + 1 < target_bounds.size(); ++learner)
        of_learners.push_back(token_stats.narrow(
            0, target_bounds[learner], target_bounds[learner + 1] - target_bounds[learner]));
    return of_learners;
}

// The part of a micro-batch that its statistics do not tell.
struct OfMicroBatch {
    std::vector<int64_t> target_bounds;
    double loss_scale;
};

// Adds up the numbers of micro-batches, for each learner, from `next` on; those of losses in shares
// of the step. Returns the first number behind them.
const double* add_up(const std::vector<OfMicroBatch>& micro_batches, const double* next,
                     std::vector<StepSums::Learner>& learners) {
    for (const OfMicroBatch& micro_batch : micro_batches)
        for (StepSums::Learner& learner : learners)
            for (size_t i = 0; i < learner.token_numbers.size(); ++i) {
                const bool is_of_loss = i == 0 || i >= ops::stats_per_token;
                learner.token_numbers[i] += *next++ * (is_of_loss ? micro_batch.loss_scale : 1);
            }
    return next;
}

}  // namespace

// Returns this rank's part of a micro-batch.
model::TokenBatch Trainer::shard(data::FlatBatch batch, const model::AllPairs& pairs) const {
    if (batch.content.is_embedded) return shard_texts(std::move(batch), mesh_, model_.masks());
    if (!batch.content.has_answers()) return shard_batch(std::move(batch), mesh_, model_.masks());
    return shard_answers(std::move(batch), mesh_, model_.masks(), reference_, pairs);
}

// Returns what is known of the pairs of a step. For a baseline the model reads other answers before
// it learns.
model::AllPairs Trainer::all_pairs(const MicroBatches& micro_batches, const StepWork& work) const {
    model::AllPairs pairs = work.learners.front().pairs;
    const data::Rows& rows = learners_.front().rows();
    if (!rows.has_baseline()) return pairs;
    pairs.baseline = read_baseline(
        world_, mesh_, model_, reference_, std::ssize(micro_batches), [&](int64_t number) {
            std::vector<int64_t> numbers;
            for (const auto& start : micro_batches[static_cast<size_t>(number)].row_starts)
                numbers.push_back(start.row);
            return data::flatten_baseline(rows, numbers);
        });
    return pairs;
}

// Returns what the texts of each micro-batch learn, for which the model embeds those of all ranks
// before it learns.
std::vector<model::EmbeddedDocuments::Learned> Trainer::embed(
    const MicroBatches& micro_batches) const {
    const Learner& learner = learners_.front();
    if (!learner.rows().content().is_embedded) return {};
    AllEmbeddings all(learner.rows(), learner.rows_of_step(), mesh_, model_);
    const int64_t batch_size = learner.settings().per_device_train_batch_size;
    const auto num_rows = std::ssize(learner.rows_of_step());
    std::vector<OwnRows> own;
    for (const data::FlatBatch& batch : micro_batches) {
        const int64_t round = std::ssize(own) * mesh_.shape().data();
        own.push_back({std::min(num_rows, (round + mesh_.data_rank()) * batch_size),
                       std::ssize(batch.row_starts)});
        all.read(own.back().first, batch);
    }
    all.join();
    return all.learn(own, learner.settings().temperature);
}

// Runs forward and backward of all micro-batches. Returns the share of this rank in the sums of the
// step. Adds the names of the attention operators to `attention`.
StepSums Trainer::run(MicroBatches micro_batches, const StepWork& work,
                      std::set<std::string>& attention) {
    std::vector<OfMicroBatch> of_micro_batches;
    const model::AllPairs pairs = all_pairs(micro_batches, work);
    const std::vector<model::EmbeddedDocuments::Learned> embedded = embed(micro_batches);
    if (documents_) documents_->begin_step();
    const auto token_stats =
        run_micro_batches(zero_, model_, std::ssize(micro_batches), [&](int64_t i) {
            data::FlatBatch batch =
                order_for_attention(std::move(micro_batches[static_cast<size_t>(i)]), mesh_);
            if (documents_) documents_->add(batch);
            const double loss_scale = batch.loss_scale;
            model::TokenBatch mine = shard(std::move(batch), pairs);
            if (mine.documents) mine.documents->learned = embedded[static_cast<size_t>(i)];
            if (documents_) documents_->watch(mine);
            attention.merge(model_.attention_operators(mine));
            of_micro_batches.push_back({mine.target_bounds, loss_scale});
            return MicroBatch{std::move(mine), loss_scale};
        });
    if (documents_) documents_->take(token_stats);
    zero_.finish_gradients();
    std::vector<at::Tensor> on_device;
    for (size_t i = 0; i < token_stats.size(); ++i)
        for (const at::Tensor& of_learner :
             by_learner(token_stats[i], of_micro_batches[i].target_bounds))
            on_device.push_back(ops::sum_of_tokens(of_learner));
    on_device.push_back(zero_.sum_gradient_squares());
    // Waits for a GPU only now, when all its work is queued.
    const at::Tensor numbers = ops::on_host(at::cat(on_device));
    const model::RouterLoad routers = model_.take_router_load();
    StepSums sums{.aux_loss = routers.aux_loss,
                  .expert_choices = {routers.choices.begin(), routers.choices.end()},
                  .ranks = std::vector<RankTimes>(static_cast<size_t>(world_.size()))};
    sums.learners.resize(learners_.size());
    for (StepSums::Learner& learner : sums.learners)
        learner.token_numbers.resize(narrow<size_t>(model_.objective().numbers_per_token()));
    const double* next = add_up(of_micro_batches, numbers.const_data_ptr<double>(), sums.learners);
    for (StepSums::Learner& learner : sums.learners) learner.gradient_squares = *next++;
    if (faults_ != nullptr && faults_->corruption_at("prove:norm") != Faults::Corruption::none)
        for (StepSums::Learner& learner : sums.learners) learner.gradient_squares = 0;
    return sums;
}

// Returns the numbers of a learner from the sums of the step.
StepNumbers Trainer::numbers_of(size_t learner, const LearnerWork& work,
                                const StepSums& sums) const {
    const Learner& mine = learners_[learner];
    const StepSums::Learner& of_learner = sums.learners[learner];
    StepNumbers numbers{.step_tokens = static_cast<int64_t>(work.counted_tokens),
                        .operations = work.operations};
    numbers.loss = of_learner.loss() + model_.spec().router_aux_loss_coef * sums.aux_loss;
    numbers.entropy = of_learner.entropy() / work.targets;
    numbers.accuracy = of_learner.correct() / work.targets;
    numbers.names = model_.objective().stat_names();
    for (size_t i = 0; const auto& [name, divisor] : model_.objective().further_numbers()) {
        const double sum = of_learner.further(i++);
        if (!name.empty())
            numbers.of_objective.push_back({name, sum, divisor ? of_learner.further(*divisor) : 1});
    }
    numbers.grad_norm = std::sqrt(of_learner.gradient_squares);
    numbers.learning_rate = mine.learning_rate(steps_done_);
    numbers.has_targets = work.has_targets;
    if (!trains(mine)) return numbers;
    numbers.rows = std::ssize(mine.rows_of_step());
    if (!work.has_targets)
        numbers.skipped_because = describe_no_targets(steps_done_ + 1, mine.name());
    return numbers;
}

// Completes the numbers of a step but for those that depend on its update.
void Trainer::take(const StepWork& work, StepSums sums, StepNumbers& numbers) const {
    for (size_t learner = 0; learner < learners_.size(); ++learner) {
        numbers.learners.push_back(numbers_of(learner, work.learners[learner], sums));
        numbers.rows += numbers.learners.back().rows;
    }
    numbers.routers = {.has_aux_loss = model_.spec().router_aux_loss_coef > 0,
                       .aux_loss = sums.aux_loss,
                       .num_experts = model_.spec().num_experts(),
                       .choices = std::move(sums.expert_choices)};
    numbers.flags = sums.flags;
    numbers.ranks = std::move(sums.ranks);
}

// Sets the numbers of a step to the means over the learners that took it. A step that all skip is a
// skipped one.
void Trainer::set_means(StepNumbers& numbers) const {
    std::vector<const StepNumbers*> of_training;
    for (size_t learner = 0; learner < learners_.size(); ++learner)
        if (trains(learners_[learner])) of_training.push_back(&numbers.learners[learner]);
    std::vector<const StepNumbers*> taken = of_training;
    std::erase_if(taken, [](const StepNumbers* mine) { return mine->is_skipped(); });
    if (taken.empty()) {
        numbers.skipped_because = of_training.front()->skipped_because;
        taken = of_training;
    }
    const auto count = static_cast<double>(taken.size());
    double squares = 0;
    numbers.names = taken.front()->names;
    numbers.has_targets = false;
    for (const StepNumbers* const mine : taken) {
        numbers.loss += mine->loss / count;
        numbers.entropy += mine->entropy / count;
        numbers.accuracy += mine->accuracy / count;
        numbers.learning_rate += mine->learning_rate / count;
        numbers.has_targets |= mine->has_targets;
        squares += mine->grad_norm * mine->grad_norm;
        numbers.of_objective.resize(mine->of_objective.size());
        for (size_t i = 0; i < mine->of_objective.size(); ++i) {
            const auto& [name, sum, divisor] = mine->of_objective[i];
            StepNumbers::OfObjective& mean = numbers.of_objective[i];
            mean = {name, mean.sum + sum / count, mean.divisor + divisor / count};
        }
    }
    numbers.grad_norm = std::sqrt(squares);
}

// Handles a loss or gradient that is not finite, as on_nan says; the weights of the learner stay as
// they are.
std::optional<comm::AgreedFailure> Trainer::leave_out(Learner& learner, StepNumbers& numbers) {
    numbers.skipped_because =
        describe(NonFiniteStep{steps_done_ + 1, learner.name(), numbers.loss, numbers.grad_norm,
                               first_non_finite_gradient(zero_, world_), learner.rows_of_step()});
    if (learner.settings().on_nan == config::OnNan::rewind &&
        non_finite_before_.insert(steps_done_).second) {
        numbers.asks_to_rewind = true;
        return std::nullopt;
    }
    if (const auto end = fail_after_skipping(learner.settings(), learner.skipped_step(),
                                             numbers.skipped_because))
        return comm::found_by_all(*end);
    return std::nullopt;
}

// Updates the weights of each learner whose numbers are finite. No weight changes if the step asks
// for a rewind.
std::optional<comm::AgreedFailure> Trainer::update(StepNumbers& numbers) {
    std::vector<std::optional<optim::Update>> updates(learners_.size());
    for (size_t i = 0; i < learners_.size(); ++i) {
        Learner& learner = learners_[i];
        StepNumbers& mine = numbers.learners[i];
        if (!trains(learner) || !mine.has_targets) continue;
        if (!std::isfinite(mine.loss) || !std::isfinite(mine.grad_norm)) {
            if (auto failure = leave_out(learner, mine)) return failure;
            numbers.asks_to_rewind = mine.asks_to_rewind;
            if (!numbers.asks_to_rewind) continue;
            numbers.skipped_because = mine.skipped_because;
            return std::nullopt;
        }
        learner.took_step();
        updates[i] = learner.update_by(mine);
    }
    if (std::ranges::none_of(updates, [](const auto& update) { return update.has_value(); })) {
        optimizer_.skip_step();
        return std::nullopt;
    }
    optimizer_.step(zero_, updates);
    zero_.refresh_compute_weights();
    return std::nullopt;
}

// Of the factors in FP8 whose scales follow from earlier steps.
std::vector<int64_t> Trainer::take_maxima() const {
    const model::DelayedScaling* const scaling = model_.delayed_scaling();
    return scaling == nullptr ? std::vector<int64_t>() : scaling->take_maxima();
}

// One reduction of two numbers for each product, however many layers and ranks there are.
void Trainer::add_to_history(std::vector<int64_t> maxima) const {
    model::DelayedScaling* const scaling = model_.delayed_scaling();
    if (scaling == nullptr) return;
    world_.flight_recorder().set_activity("reducing the maxima of products in FP8");
    scaling->push(world_.maximum(std::move(maxima)));
}

StepNumbers Trainer::step(const std::function<ControlFlags()>& look,
                          const std::function<void(double)>& counted) {
    StepClock clock(world_.flight_recorder(), after_the_sums_);
    world_.flight_recorder().set_activity("waiting for rows");
    std::vector<MicroBatches> of_learners;
    for (Learner& learner : learners_) of_learners.push_back(learner.next_rows(steps_done_));
    MicroBatches micro_batches = join(of_learners);
    RINGSHARD_CHECK(!micro_batches.empty(), "step {} has no rows", steps_done_ + 1);
    clock.has_rows();
    world_.flight_recorder().set_activity("forward and backward");
    optimizer_.begin_training(zero_);
    // The divisor of every gradient has to be known before the first of them.
    const StepWork work = count_work(world_, mesh_, model_, of_learners, micro_batches);
    for (data::FlatBatch& batch : micro_batches) data::scale_losses(batch, work.loss_scales());
    counted(count_longest(world_, model_, micro_batches));

    StepNumbers numbers = work.numbers();
    StepSums sums = run(std::move(micro_batches), work, numbers.attention);
    sums.flags = look();
    sums.ranks[static_cast<size_t>(world_.rank())] = clock.begin_sum();
    world_.flight_recorder().set_activity("summing the numbers of the step");
    take(work, sum_over(world_, std::move(sums)), numbers);
    world_.flight_recorder().set_activity("updating the weights");
    // Of this rank, before the weights change: a step that changes none leaves the history as it
    // is.
    const std::vector<int64_t> maxima = take_maxima();
    numbers.ends_run = update(numbers);
    set_means(numbers);
    if (numbers.is_lost()) return numbers;
    if (!numbers.is_skipped()) add_to_history(maxima);
    after_the_sums_ = clock.rest();
    numbers.seconds = clock.seconds();
    advance(work, numbers);
    return numbers;
}

// Advances the position of the run by a step.
void Trainer::advance(const StepWork& work, StepNumbers& numbers) {
    add_step(sums_, numbers);
    const int64_t step = steps_done_++;
    for (size_t i = 0; i < learners_.size(); ++i) {
        if (!learners_[i].trains_after(step)) continue;
        StepNumbers& mine = numbers.learners[i];
        mine.step = steps_done_;
        mine.seconds = numbers.seconds;
        mine.ranks = numbers.ranks;
        learners_[i].advance(static_cast<int64_t>(work.learners[i].counted_tokens), mine);
    }
    numbers.step = steps_done_;
    numbers.epoch = epochs_done();
    for (const Learner& learner : learners_) numbers.num_tokens += learner.progress().num_tokens;
}

}  // namespace ringshard::train
