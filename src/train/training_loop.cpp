#include "ringshard/train/training_loop.hpp"

#include <cmath>
#include <iostream>

#include "requests.hpp"
#include "ringshard/checkpoint/manifest.hpp"
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

    std::optional<comm::AgreedFailure> begin() const {
        return comm::first_failure(world_, world_.is_root() ? file_.clean() : std::nullopt);
    }

    std::optional<comm::AgreedFailure> add(const StepNumbers& numbers, bool ends_epoch) {
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
        std::optional<Failure> failure;
        if (world_.is_root()) {
            std::cerr << progress_line(line, num_steps_, seconds_per_step) << std::endl;
            failure = file_.append(line, seconds_per_step);
        }
        return comm::first_failure(world_, failure);
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

std::optional<comm::AgreedFailure> train_to_the_end(
    const config::Config& config, const comm::Group& world, Trainer& trainer,
    const checkpoint::Store& store, const shard::Zero& zero, optim::AdamW& optimizer,
    const checkpoint::Extras& extras, Faults& faults) {
    const Requests requests(store.output_dir(), world);
    Log log(config.logging, world, store, trainer.num_steps());
    if (const auto failure = log.begin()) return failure;
    while (trainer.progress().step < trainer.num_steps()) {
        faults.reach("step");
        const auto numbers = trainer.step();
        if (!numbers) return numbers.failure();
        const int64_t step = numbers.value().step;
        const bool ends_epoch = trainer.is_at_epoch_end();
        if (const auto failure = log.add(numbers.value(), ends_epoch)) return failure;

        const Requests::Wish wish = requests.look(world);
        const bool is_due = is_save_due(config.checkpoint, step, trainer.num_steps(), ends_epoch);
        if (is_due || wish != Requests::Wish::none) {
            const auto saved = store.save(trainer.progress(), zero, optimizer, extras,
                                          config.checkpoint.save_total_limit, faults);
            if (!saved) return saved.failure();
            for (const std::string& warning : saved.value())
                std::cerr << "warning: " << warning << std::endl;
        }
        if (wish == Requests::Wish::stop && step < trainer.num_steps())
            return comm::found_by_all(
                {ExitCode::stopped_early,
                 concat("asked to stop after step ", step, " of ", trainer.num_steps(), ": ",
                        checkpoint::checkpoint_name(step),
                        " is whole, and the same command goes "
                        "on from there")});
    }
    return std::nullopt;
}

}  // namespace ringshard::train
