#include "ringshard/train/training_loop.hpp"

#include <cmath>
#include <iostream>

#include "ringshard/comm/agree.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

namespace {

// "every 10 steps", or a share of all steps when below 1.
int64_t interval(double steps, int64_t num_steps) {
    if (steps >= 1) return static_cast<int64_t>(steps);
    return std::max<int64_t>(
        1, static_cast<int64_t>(std::ceil(steps * static_cast<double>(num_steps))));
}

class Log {
public:
    Log(const config::LoggingSettings& settings, const comm::Group& world,
        const checkpoint::Store& store, int64_t num_steps)
        : settings_(settings),
          world_(world),
          file_(store.output_dir(), store.attempt()),
          num_steps_(num_steps),
          interval_(interval(settings.logging_steps, num_steps)) {}

    std::optional<Failure> begin() const { return world_.is_root() ? file_.clean() : std::nullopt; }

    // Only rank 0 fails; the others learn of it at the next agreement.
    std::optional<Failure> add(const StepNumbers& numbers, bool ends_epoch) {
        window_.add(numbers);
        ++steps_in_window_;
        const bool is_due = (settings_.logging_strategy == config::Interval::steps &&
                             numbers.step % interval_ == 0) ||
                            (settings_.logging_strategy == config::Interval::epoch && ends_epoch) ||
                            (settings_.logging_first_step && numbers.step == 1);
        if (!is_due) return std::nullopt;
        const StepNumbers line = window_.take();
        const double seconds_per_step =
            line.seconds / static_cast<double>(std::exchange(steps_in_window_, 0));
        if (!world_.is_root()) return std::nullopt;
        std::cerr << progress_line(line, num_steps_, seconds_per_step) << std::endl;
        return file_.append(line, seconds_per_step);
    }

private:
    config::LoggingSettings settings_;
    const comm::Group& world_;
    MetricsFile file_;
    int64_t num_steps_;
    int64_t interval_;
    int64_t steps_in_window_ = 0;
    MetricsWindow window_;
};

bool is_save_due(const config::CheckpointSettings& settings, int64_t step, int64_t num_steps,
                 bool ends_epoch) {
    if (settings.save_strategy == config::SaveStrategy::no) return false;
    if (step == num_steps) return true;
    if (settings.save_strategy == config::SaveStrategy::epoch) return ends_epoch;
    return step % interval(settings.save_steps, num_steps) == 0;
}

}  // namespace

std::optional<Failure> train_to_the_end(const config::Config& config, const comm::Group& world,
                                        Trainer& trainer, const checkpoint::Store& store,
                                        const shard::Zero& zero, optim::AdamW& optimizer,
                                        const CheckpointExtras& extras, Faults& faults) {
    Log log(config.logging, world, store, trainer.num_steps());
    std::optional<Failure> failure = log.begin();
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    while (trainer.progress().step < trainer.num_steps()) {
        faults.reach("step");
        const StepNumbers numbers = trainer.step();
        const bool ends_epoch = trainer.progress().data.samples_done == 0;
        failure = log.add(numbers, ends_epoch);
        if (!is_save_due(config.checkpoint, numbers.step, trainer.num_steps(), ends_epoch))
            continue;
        if (const auto agreed = comm::first_failure(world, failure)) return agreed;
        if (const auto failed =
                store.save(trainer.progress(), zero, optimizer, extras.files, extras.texts))
            return failed;
    }
    return comm::first_failure(world, failure);
}

}  // namespace ringshard::train
