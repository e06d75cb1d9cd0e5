#include "ringshard/train/learner.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/base/mix.hpp"

namespace ringshard::train {

int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch) {
    if (settings.max_steps > 0) return settings.max_steps;
    // Beyond this many no run ends, and the count no longer fits.
    constexpr double most = 1e15;
    return static_cast<int64_t>(std::min(
        most, std::ceil(settings.num_train_epochs * static_cast<double>(steps_per_epoch))));
}

Learner::Learner(const Setup& setup)
    : settings_(setup.settings),
      loader_(setup.loader),
      seed_(mix_bits(static_cast<uint64_t>(setup.seed))),
      name_(setup.name),
      planned_steps_(count_steps(settings_, loader_.steps_per_epoch())),
      num_steps_(planned_steps_),
      schedule_(settings_, planned_steps_) {
    if (settings_.lr_scheduler_type == config::Schedule::reduce_on_plateau)
        plateau_.emplace(config::read_schedule_settings(settings_).value().plateau,
                         settings_.learning_rate);
}

int64_t Learner::num_epochs() const {
    const int64_t of_epoch = std::max<int64_t>(1, loader_.steps_per_epoch());
    return settings_.max_steps > 0 ? (planned_steps_ + of_epoch - 1) / of_epoch
                                   : static_cast<int64_t>(std::ceil(settings_.num_train_epochs));
}

std::string Learner::title() const {
    return name_.empty() ? "model" : format_text("adapter {}", name_);
}

void Learner::go_to(const checkpoint::Progress::OfLearner& progress, int64_t step) {
    progress_ = progress;
    // One that ended with this step goes on if its evaluations no longer ask it to stop.
    if (progress_.last_step && *progress_.last_step >= step) progress_.last_step.reset();
    num_steps_ = progress_.last_step.value_or(planned_steps_);
    skipped_in_a_row_ = 0;
    if (step == 0) progress_.sums.emplace();
    loader_.go_to(progress_.data);
    if (!plateau_) return;
    if (!progress_.plateau)
        progress_.plateau = optim::PlateauState{.rate = settings_.learning_rate};
    plateau_->go_to(*progress_.plateau);
}

void Learner::end_at(int64_t step) {
    num_steps_ = step;
    progress_.last_step = step;
}

std::vector<data::FlatBatch> Learner::next_rows(int64_t step) {
    return trains_after(step) ? loader_.next_step() : std::vector<data::FlatBatch>();
}

uint64_t Learner::dropout_of(int64_t step) const {
    return mix_bits(seed_, static_cast<uint64_t>(step));
}

double Learner::learning_rate(int64_t step) const {
    return plateau_ ? plateau_->rate() : schedule_.learning_rate(step);
}

optim::Update Learner::update_by(const StepNumbers& numbers) const {
    return {numbers.learning_rate, optim::clip_scale(numbers.grad_norm, settings_.max_grad_norm),
            settings_.weight_decay, settings_.loraplus_lr_ratio, settings_.warmup_steps};
}

void Learner::advance(int64_t counted_tokens, StepNumbers& numbers) {
    progress_.num_tokens += counted_tokens;
    progress_.data = loader_.state();
    add_step(progress_.sums, numbers);
    numbers.epoch = epochs_done();
    numbers.num_tokens = progress_.num_tokens;
}

void Learner::take_metric(double value) {
    plateau_->take(value);
    progress_.plateau = plateau_->state();
}

void add_step(std::optional<checkpoint::RunSums>& sums, const StepNumbers& of_step) {
    if (!sums) return;  // it began with a checkpoint that has none
    sums->operations += of_step.operations;
    if (of_step.is_skipped()) return;
    sums->loss += of_step.loss;
    ++sums->num_losses;
}

}  // namespace ringshard::train
