#include "ringshard/train/trainer.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>

#include "non_finite.hpp"
#include "ringshard/base/mix.hpp"
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

namespace {

// Divides the losses of each curve by its weight.
void divide_losses(MicroBatches& micro_batches, const StepWork& work) {
    std::vector<double> scales;
    for (const CurveWork& curve : work.curves) scales.push_back(1.0 / curve.weight);
    for (data::FlatBatch& batch : micro_batches) data::scale_losses(batch, scales);
}

void copy_sums(const StepNumbers& from, StepNumbers& to) {
    to.loss = from.loss;
    to.entropy = from.entropy;
    to.accuracy = from.accuracy;
    to.names = from.names;
    to.of_objective = from.of_objective;
    to.grad_norm = from.grad_norm;
    to.learning_rate = from.learning_rate;
    to.has_targets = from.has_targets;
    to.skipped_because = from.skipped_because;
}

}  // namespace

int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch) {
    if (settings.max_steps > 0) return settings.max_steps;
    // Beyond this many no run ends, and the count no longer fits.
    constexpr double most = 1e15;
    return static_cast<int64_t>(std::min(
        most, std::ceil(settings.num_train_epochs * static_cast<double>(steps_per_epoch))));
}

Trainer::RunningCurve::RunningCurve(const Curve& curve)
    : settings(curve.settings),
      loader(curve.loader),
      seed(mix_bits(static_cast<uint64_t>(curve.seed))),
      name(curve.name),
      planned_steps(count_steps(curve.settings, curve.loader.steps_per_epoch())),
      num_steps(planned_steps),
      schedule(curve.settings, num_steps) {
    if (settings.lr_scheduler_type == config::Schedule::reduce_on_plateau)
        plateau.emplace(config::read_schedule_settings(settings).value().plateau,
                        settings.learning_rate);
}

Trainer::Trainer(const comm::Group& world, const mesh::Mesh& mesh, std::vector<Curve> curves,
                 const model::Transformer& model, shard::Zero& zero, optim::Optimizer& optimizer,
                 std::optional<int64_t> adapters_at_a_time)
    : world_(world),
      mesh_(mesh),
      model_(model),
      zero_(zero),
      optimizer_(optimizer),
      adapters_at_a_time_(narrow<size_t>(adapters_at_a_time.value_or(std::ssize(curves)))) {
    RINGSHARD_CHECK(curves.size() == zero.num_variants(), "{} curves for {} adapters",
                    curves.size(), zero.num_variants());
    for (const Curve& curve : curves) curves_.emplace_back(curve);
}

Trainer::Trainer(const config::TrainingSettings& settings, const comm::Group& world,
                 const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
                 shard::Zero& zero, optim::Optimizer& optimizer, int64_t seed)
    : Trainer(world, mesh, {{.settings = settings, .loader = loader, .seed = seed}}, model, zero,
              optimizer) {}

Trainer::~Trainer() = default;

void Trainer::watch_documents() {
    RINGSHARD_CHECK(!is_joint(), "the rows of several adapters are not told apart");
    documents_ = std::make_unique<StepDocuments>(mesh_);
}

const Trainer::RunningCurve& Trainer::longest() const {
    return *std::ranges::max_element(curves_, {}, &RunningCurve::num_steps);
}

int64_t Trainer::planned_steps() const {
    return std::ranges::max_element(curves_, {}, &RunningCurve::planned_steps)->planned_steps;
}

void Trainer::resume_from(const checkpoint::Progress& progress) {
    progress_ = progress;
    if (progress.step == 0) progress_.sums.emplace();
    after_the_sums_ = {};
    RINGSHARD_CHECK(progress.step == 0 || progress.adapters.size() == num_adapters(),
                    "the checkpoint is of {} adapters", progress.adapters.size());
    progress_.adapters.resize(num_adapters());
    for (size_t curve = 0; curve < curves_.size(); ++curve) {
        curves_[curve].skipped_in_a_row = 0;
        curves_[curve].num_tokens =
            is_joint() ? progress_.adapters[curve].num_tokens : progress_.num_tokens;
        if (progress.step == 0 && is_joint()) progress_.adapters[curve].sums.emplace();
        curves_[curve].loader.go_to(is_joint() ? progress_.adapters[curve].data : progress_.data);
        if (is_joint())
            curves_[curve].num_steps =
                progress_.adapters[curve].last_step.value_or(curves_[curve].planned_steps);
        if (curves_[curve].plateau) resume_plateau(curve);
    }
}

std::optional<optim::PlateauState>& Trainer::stored_plateau(size_t curve) {
    return is_joint() ? progress_.adapters[curve].plateau : progress_.plateau;
}

void Trainer::resume_plateau(size_t curve) {
    std::optional<optim::PlateauState>& stored = stored_plateau(curve);
    if (!stored) stored = optim::PlateauState{.rate = curves_[curve].settings.learning_rate};
    curves_[curve].plateau->go_to(*stored);
}

void Trainer::take_metric(size_t curve, double value) {
    curves_[curve].plateau->take(value);
    stored_plateau(curve) = curves_[curve].plateau->state();
}

void Trainer::end_early(size_t curve) {
    curves_[curve].num_steps = progress_.step;
    progress_.adapters.at(curve).last_step = progress_.step;
}

// Returns the rows of the current step, over all data ranks.
int64_t Trainer::num_rows(size_t curve) const {
    return trains(curve) ? std::ssize(curves_[curve].loader.rows_of_step()) : 0;
}

uint64_t Trainer::dropout_of_step(size_t curve) const {
    return mix_bits(curves_[curve].seed, static_cast<uint64_t>(progress_.step));
}

// Joins micro-batch `number` of some curves; the others have no rows in it.
data::FlatBatch Trainer::join(const std::vector<MicroBatches>& of_curves, size_t number,
                              std::span<const size_t> some) const {
    std::vector<data::AdapterBatch> parts;
    for (size_t curve = 0; curve < of_curves.size(); ++curve)
        parts.push_back({nullptr, dropout_of_step(curve)});
    for (const size_t curve : some) parts[curve].batch = &of_curves[curve][number];
    return data::join_batches(parts);
}

// Joins the micro-batches of the curves, number by number. An epoch's last step may have fewer
// micro-batches of one curve than of another.
MicroBatches Trainer::join(const std::vector<MicroBatches>& of_curves) const {
    size_t count = 0;
    for (const MicroBatches& batches : of_curves) count = std::max(count, batches.size());
    MicroBatches joined;
    for (size_t number = 0; number < count; ++number) {
        std::vector<size_t> present;
        for (size_t curve = 0; curve < of_curves.size(); ++curve)
            if (number < of_curves[curve].size()) present.push_back(curve);
        for (size_t first = 0; first < present.size(); first += adapters_at_a_time_)
            joined.push_back(
                join(of_curves, number,
                     std::span(present).subspan(
                         first, std::min(adapters_at_a_time_, present.size() - first))));
    }
    return joined;
}

namespace {

// The statistics of each curve's target tokens in a micro-batch. Without bounds there is one curve.
std::vector<at::Tensor> by_curve(const at::Tensor& token_stats,
                                 const std::vector<int64_t>& target_bounds) {
    if (target_bounds.empty()) return {token_stats};
    std::vector<at::Tensor> of_curves;
    for (size_t curve = 0; curve + 1 < target_bounds.size(); ++curve)
        of_curves.push_back(token_stats.narrow(0, target_bounds[curve],
                                               target_bounds[curve + 1] - target_bounds[curve]));
    return of_curves;
}

}  // namespace

// Runs forward and backward of all micro-batches. Returns the share of this rank in the sums of the
// step. Adds the names of the attention operators to `attention`.
StepSums Trainer::run(MicroBatches micro_batches, const StepWork& work,
                      std::set<std::string>& attention) {
    // The losses of several curves are divided already.
    const double gradient_scale = is_joint() ? 1 : 1.0 / work.curves.front().weight;
    std::vector<std::vector<int64_t>> target_bounds;  // of each micro-batch
    if (documents_) documents_->begin_step();
    const auto token_stats = run_micro_batches(
        zero_, model_, std::ssize(micro_batches),
        [&](int64_t i) {
            data::FlatBatch batch =
                order_for_attention(std::move(micro_batches[static_cast<size_t>(i)]), mesh_);
            if (documents_) documents_->add(batch);
            model::TokenBatch mine =
                batch.content.is_pair
                    ? shard_pairs(std::move(batch), mesh_, model_.masks(), reference_,
                                  work.curves.front().mean_chosen_targets)
                    : shard_batch(
                          std::move(batch), mesh_, model_.masks(),
                          model_.has_dropout() ? std::optional(dropout_of_step(0)) : std::nullopt);
            if (documents_) documents_->watch(mine);
            attention.merge(model_.attention_operators(mine));
            target_bounds.push_back(mine.target_bounds);
            return mine;
        },
        gradient_scale);
    if (documents_) documents_->take(token_stats);
    zero_.finish_gradients();
    std::vector<at::Tensor> on_device;
    for (size_t i = 0; i < token_stats.size(); ++i)
        for (const at::Tensor& of_curve : by_curve(token_stats[i], target_bounds[i]))
            on_device.push_back(ops::sum_of_tokens(of_curve));
    on_device.push_back(zero_.sum_gradient_squares());
    // Waits for a GPU only now, when all its work is queued.
    const at::Tensor numbers = ops::on_host(at::cat(on_device));
    const auto* next = numbers.const_data_ptr<double>();
    const auto numbers_per_token = static_cast<size_t>(model_.objective().numbers_per_token());
    std::vector<std::vector<double>> here(curves_.size(), std::vector<double>(numbers_per_token));
    for (size_t i = 0; i < token_stats.size(); ++i)
        for (std::vector<double>& of_curve : here)
            for (double& number : of_curve) number += *next++;
    const model::RouterLoad routers = model_.take_router_load();
    StepSums sums{.aux_loss = routers.aux_loss,
                  .expert_choices = {routers.choices.begin(), routers.choices.end()},
                  .ranks = std::vector<RankTimes>(static_cast<size_t>(world_.size()))};
    for (size_t curve = 0; curve < curves_.size(); ++curve)
        sums.curves.push_back({here[curve], next[curve]});
    return sums;
}

// Returns the numbers of a curve from the sums of the step. If several curves train, their losses
// are divided by their weights already.
StepNumbers Trainer::numbers_of(size_t curve, const CurveWork& work, const StepSums& sums) const {
    const StepSums::Curve& of_curve = sums.curves[curve];
    StepNumbers numbers{.step_tokens = static_cast<int64_t>(work.counted_tokens),
                        .operations = work.operations,
                        .rows = num_rows(curve)};
    numbers.loss = is_joint() ? of_curve.loss()
                              : of_curve.loss() / work.weight +
                                    model_.spec().router_aux_loss_coef * sums.aux_loss;
    numbers.entropy = of_curve.entropy() / work.targets;
    numbers.accuracy = of_curve.correct() / work.targets;
    numbers.names = model_.objective().stat_names();
    for (size_t i = 0; const auto& [name, divisor] : model_.objective().further_numbers()) {
        const double sum = of_curve.further(i++) / work.weight;
        if (!name.empty())
            numbers.of_objective.push_back(
                {name, sum, divisor ? of_curve.further(*divisor) / work.weight : 1});
    }
    numbers.grad_norm = std::sqrt(of_curve.gradient_squares);
    const std::optional<optim::Plateau>& plateau = curves_[curve].plateau;
    numbers.learning_rate =
        plateau ? plateau->rate() : curves_[curve].schedule.learning_rate(progress_.step);
    numbers.has_targets = work.has_targets;
    if (trains(curve) && !work.has_targets)
        numbers.skipped_because = describe_no_targets(progress_.step + 1, curves_[curve].name);
    return numbers;
}

// Sets the numbers of a step of several curves to the means over them. A step that all of them skip
// is a skipped one.
void Trainer::add_means(StepNumbers& numbers) const {
    double count = 0;
    double squares = 0;
    std::string skipped_because;
    for (size_t curve = 0; curve < curves_.size(); ++curve) {
        const StepNumbers& mine = numbers.adapters[curve];
        if (!trains(curve)) continue;
        if (skipped_because.empty()) skipped_because = mine.skipped_because;
        if (mine.is_skipped()) continue;
        ++count;
        numbers.loss += mine.loss;
        numbers.entropy += mine.entropy;
        numbers.accuracy += mine.accuracy;
        numbers.learning_rate += mine.learning_rate;
        squares += mine.grad_norm * mine.grad_norm;
    }
    for (double* const mean :
         {&numbers.loss, &numbers.entropy, &numbers.accuracy, &numbers.learning_rate})
        *mean /= std::max(1.0, count);
    numbers.grad_norm = std::sqrt(squares);
    if (count == 0) numbers.skipped_because = skipped_because;
}

// Handles a loss or gradient that is not finite, as on_nan says; the weights of the curve stay as
// they are.
std::optional<comm::AgreedFailure> Trainer::leave_out(size_t curve, StepNumbers& numbers) {
    RunningCurve& mine = curves_[curve];
    numbers.skipped_because = describe(
        NonFiniteStep{progress_.step + 1, mine.name, numbers.loss, numbers.grad_norm,
                      first_non_finite_gradient(zero_, world_), mine.loader.rows_of_step()});
    if (mine.settings.on_nan == config::OnNan::rewind &&
        non_finite_before_.insert(progress_.step).second) {
        numbers.asks_to_rewind = true;
        return std::nullopt;
    }
    if (const auto end =
            fail_after_skipping(mine.settings, ++mine.skipped_in_a_row, numbers.skipped_because))
        return comm::found_by_all(*end);
    return std::nullopt;
}

// Updates the weights of each curve whose numbers are finite. No weight changes if the step asks
// for a rewind.
std::optional<comm::AgreedFailure> Trainer::update(StepNumbers& numbers) {
    std::vector<std::optional<optim::Update>> updates(curves_.size());
    for (size_t curve = 0; curve < curves_.size(); ++curve) {
        if (!trains(curve)) continue;
        StepNumbers& mine = is_joint() ? numbers.adapters[curve] : numbers;
        if (!mine.has_targets) continue;
        if (!std::isfinite(mine.loss) || !std::isfinite(mine.grad_norm)) {
            if (auto failure = leave_out(curve, mine)) return failure;
            numbers.asks_to_rewind = mine.asks_to_rewind;
            if (!numbers.asks_to_rewind) continue;
            numbers.skipped_because = mine.skipped_because;
            return std::nullopt;
        }
        curves_[curve].skipped_in_a_row = 0;
        const config::TrainingSettings& settings = curves_[curve].settings;
        updates[curve] = {mine.learning_rate,
                          optim::clip_scale(mine.grad_norm, settings.max_grad_norm),
                          settings.weight_decay, settings.loraplus_lr_ratio, settings.warmup_steps};
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
    std::vector<MicroBatches> of_curves(curves_.size());
    for (size_t curve = 0; curve < curves_.size(); ++curve)
        if (trains(curve)) of_curves[curve] = curves_[curve].loader.next_step();
    MicroBatches joined = is_joint() ? join(of_curves) : MicroBatches();
    MicroBatches& micro_batches = is_joint() ? joined : of_curves.front();
    RINGSHARD_CHECK(!micro_batches.empty(), "step {} has no rows", progress_.step + 1);
    clock.has_rows();
    world_.flight_recorder().set_activity("forward and backward");
    optimizer_.begin_training(zero_);
    // The divisor of every gradient has to be known before the first of them.
    const StepWork work = count_work(world_, mesh_, model_, of_curves, micro_batches);
    counted(count_longest(world_, model_, micro_batches));
    if (is_joint()) divide_losses(micro_batches, work);

    StepNumbers numbers = work.numbers();
    StepSums sums = run(std::move(micro_batches), work, numbers.attention);
    if (faults_ != nullptr && faults_->corruption_at("prove:norm") != Faults::Corruption::none)
        for (StepSums::Curve& curve : sums.curves) curve.gradient_squares = 0;
    sums.flags = look();
    sums.ranks[static_cast<size_t>(world_.rank())] = clock.begin_sum();
    world_.flight_recorder().set_activity("summing the numbers of the step");
    sums = sum_over(world_, std::move(sums));
    world_.flight_recorder().set_activity("updating the weights");
    for (size_t curve = 0; curve < curves_.size(); ++curve) {
        const StepNumbers mine = numbers_of(curve, work.curves[curve], sums);
        numbers.rows += mine.rows;
        if (is_joint())
            numbers.adapters.push_back(mine);
        else
            copy_sums(mine, numbers);
    }
    numbers.routers = {.has_aux_loss = model_.spec().router_aux_loss_coef > 0,
                       .aux_loss = sums.aux_loss,
                       .num_experts = model_.spec().num_experts(),
                       .choices = std::move(sums.expert_choices)};
    numbers.flags = sums.flags;
    numbers.ranks = std::move(sums.ranks);
    // Of this rank, before the weights change: a step that changes none leaves the history as it
    // is.
    const std::vector<int64_t> maxima = take_maxima();
    numbers.ends_run = update(numbers);
    if (numbers.is_lost()) return numbers;
    if (!numbers.is_skipped()) add_to_history(maxima);
    if (is_joint()) add_means(numbers);
    after_the_sums_ = clock.rest();
    numbers.seconds = clock.seconds();
    advance(work, numbers);
    return numbers;
}

// Advances the position of the run by a step.
void Trainer::advance(const StepWork& work, StepNumbers& numbers) {
    const auto place = [this](size_t curve, StepNumbers& of_curve) {
        of_curve.step = progress_.step;
        of_curve.epoch = curves_[curve].loader.epochs_done();
        of_curve.num_tokens = curves_[curve].num_tokens;
    };
    const auto add = [](std::optional<checkpoint::RunSums>& sums, const StepNumbers& of_step) {
        if (!sums) return;  // it began with a checkpoint that has none
        sums->operations += of_step.operations;
        if (of_step.is_skipped()) return;
        sums->loss += of_step.loss;
        ++sums->num_losses;
    };
    add(progress_.sums, numbers);
    const int64_t step = progress_.step;
    progress_.step += 1;
    progress_.num_tokens = 0;
    for (size_t curve = 0; curve < curves_.size(); ++curve) {
        curves_[curve].num_tokens += static_cast<int64_t>(work.curves[curve].counted_tokens);
        progress_.num_tokens += curves_[curve].num_tokens;
        if (!is_joint()) continue;
        progress_.adapters[curve].data = curves_[curve].loader.state();
        progress_.adapters[curve].num_tokens = curves_[curve].num_tokens;
        if (step >= curves_[curve].num_steps) continue;
        StepNumbers& mine = numbers.adapters[curve];
        mine.seconds = numbers.seconds;
        mine.ranks = numbers.ranks;
        add(progress_.adapters[curve].sums, mine);
        place(curve, mine);
    }
    progress_.data = longest().loader.state();
    numbers.step = progress_.step;
    numbers.epoch = epochs_done();
    numbers.num_tokens = progress_.num_tokens;
}

}  // namespace ringshard::train
