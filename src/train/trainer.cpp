#include "ringshard/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/base/timer.hpp"

namespace ringshard::train {

namespace {

int64_t count_steps(const config::TrainingSettings& settings, int64_t steps_per_epoch) {
    if (settings.max_steps > 0) return settings.max_steps;
    // Beyond this many no run ends, and the count no longer fits.
    constexpr double most = 1e15;
    return static_cast<int64_t>(std::min(
        most, std::ceil(settings.num_train_epochs * static_cast<double>(steps_per_epoch))));
}

// The sums are of all ranks, so every rank finds the same.
Failure bad_numbers(int64_t step, double loss, double norm) {
    return {ExitCode::bad_numbers,
            concat("step ", step, ": the loss is ", loss, " and the norm of the gradient ", norm,
                   ". The weights are as before this step, and nothing was saved since the last "
                   "checkpoint. Lower learning_rate, set max_grad_norm, or look at the rows of "
                   "this step")};
}

int64_t count_targets(const data::FlatBatch& batch) {
    return std::ranges::count_if(
        batch.targets, [](int64_t target) { return target != model::TokenBatch::no_target; });
}

}  // namespace

Trainer::Trainer(const config::TrainingSettings& settings, const comm::Group& world,
                 const mesh::Mesh& mesh, data::Loader& loader, const model::Transformer& model,
                 shard::Zero& zero, optim::AdamW& optimizer)
    : settings_(settings),
      world_(world),
      mesh_(mesh),
      loader_(loader),
      model_(model),
      zero_(zero),
      optimizer_(optimizer),
      num_steps_(count_steps(settings, loader.steps_per_epoch())),
      schedule_(settings, num_steps_) {}

void Trainer::go_on_from(const checkpoint::Progress& progress) {
    progress_ = progress;
    loader_.go_to(progress.data);
}

comm::Agreed<StepNumbers> Trainer::step() {
    const Timer timer;
    std::vector<data::FlatBatch> micro_batches = loader_.next_step();

    // How many tokens there are to learn, before any gradient: it is the divisor of all of them.
    // One rank of every sequence group counts.
    const bool counts = mesh_.sequence().rank() == 0;
    std::vector<double> counted(2);
    for (const data::FlatBatch& batch : micro_batches) {
        counted[0] += counts ? static_cast<double>(count_targets(batch)) : 0;
        counted[1] += counts ? static_cast<double>(batch.num_counted()) : 0;
    }
    counted = world_.sum(counted);
    const double targets = std::max(1.0, counted[0]);

    zero_.clear_gradients();
    ops::TokenSums sums;
    for (data::FlatBatch& batch : micro_batches)
        sums += model_.forward_backward(
            data::cut_batch(std::move(batch), mesh_.shape(), mesh_.at()), 1.0 / targets);
    zero_.finish_gradients();

    const auto total = world_.sum(std::vector<double>{
        sums.loss, sums.entropy, static_cast<double>(sums.num_correct), zero_.gradient_squares()});
    const double norm = std::sqrt(total[3]);
    const double loss = total[0] / targets;
    if (!std::isfinite(loss) || !std::isfinite(norm))
        return comm::found_by_all(bad_numbers(progress_.step + 1, loss, norm));
    const double rate = schedule_.learning_rate(progress_.step);
    optimizer_.step(zero_, rate, optim::clip_scale(norm, settings_.max_grad_norm));
    zero_.publish_weights();

    progress_.step += 1;
    progress_.data = loader_.state();
    progress_.num_tokens += static_cast<int64_t>(counted[1]);
    return StepNumbers{.step = progress_.step,
                       .epoch = loader_.epochs_done(),
                       .loss = loss,
                       .grad_norm = norm,
                       .learning_rate = rate,
                       .entropy = total[1] / targets,
                       .accuracy = total[2] / targets,
                       .num_tokens = progress_.num_tokens,
                       .step_tokens = static_cast<int64_t>(counted[1]),
                       .seconds = timer.seconds()};
}

}  // namespace ringshard::train
