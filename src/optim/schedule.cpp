#include "ringshard/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

// Every product and sum stands in the order of transformers, or of DeepSpeed for its schedules, so
// that the rates are theirs to the last bits.
namespace ringshard::optim {

using config::Course;
using std::numbers::pi;
using Kind = config::Schedule;

namespace {

double ratio(int64_t part, int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

}  // namespace

int64_t num_warmup_steps(double warmup_steps, int64_t num_steps) {
    if (warmup_steps >= 1) return static_cast<int64_t>(warmup_steps);
    return static_cast<int64_t>(std::ceil(warmup_steps * static_cast<double>(num_steps)));
}

Schedule::Schedule(const config::TrainingSettings& training, int64_t num_steps)
    : kind_(training.lr_scheduler_type),
      settings_(config::read_schedule_settings(training).value()),
      peak_(training.learning_rate),
      warmup_(num_warmup_steps(training.warmup_steps, num_steps)),
      num_steps_(num_steps) {}

double Schedule::learning_rate(int64_t step) const { return peak_ * share(step); }

double Schedule::share(int64_t step) const {
    if (kind_ == Kind::constant) return 1.0;
    if (kind_ == Kind::cosine_warmup_with_min_lr) return warmup_to_cosine(step);
    if (kind_ == Kind::warmup_stable_decay) return warmup_stable_decay(step);
    if (config::is_of_deepspeed(kind_)) return deepspeed(step);
    if (step < warmup_) {
        const double risen = ratio(step, warmup_);
        return settings_.warmup_course == Course::square ? risen * risen : risen;
    }
    const double progress = ratio(step - warmup_, num_steps_ - warmup_);
    switch (kind_) {
        case Kind::linear: return std::max(0.0, ratio(num_steps_ - step, num_steps_ - warmup_));
        case Kind::cosine:
        case Kind::cosine_with_min_lr: return cosine(progress);
        case Kind::cosine_with_restarts: {
            if (progress >= 1.0) return 0.0;
            const double in_cycle = std::fmod(settings_.num_cycles * progress, 1.0);
            return std::max(0.0, 0.5 * (1.0 + std::cos(pi * in_cycle)));
        }
        case Kind::polynomial: return polynomial(step);
        case Kind::inverse_sqrt: {
            const double usual = warmup_ > 0 ? static_cast<double>(warmup_) : 10000.0;
            const double timescale = settings_.timescale.value_or(usual);
            const double shift = timescale - static_cast<double>(warmup_);
            return 1.0 / std::sqrt((static_cast<double>(step) + shift) / timescale);
        }
        default: return 1.0;  // constant, and constant after the warmup
    }
}

double Schedule::cosine(double progress) const {
    const double wave = 0.5 * (1.0 + std::cos(pi * settings_.num_cycles * 2.0 * progress));
    return std::max(0.0, wave * (1 - settings_.lowest_share) + settings_.lowest_share);
}

double Schedule::polynomial(int64_t step) const {
    const double last = settings_.last_rate;
    if (step > num_steps_) return last / peak_;
    const double left = 1 - ratio(step - warmup_, num_steps_ - warmup_);
    return ((peak_ - last) * std::pow(left, settings_.power) + last) / peak_;
}

double Schedule::warmup_to_cosine(int64_t step) const {
    if (step >= warmup_) return cosine(ratio(step - warmup_ + 1, num_steps_ - warmup_));
    if (!settings_.first_share) return ratio(step + 1, warmup_);
    const double first = *settings_.first_share;
    return first + (1.0 - first) * static_cast<double>(step) /
                       static_cast<double>(std::max<int64_t>(1, warmup_ - 1));
}

double Schedule::warmup_stable_decay(int64_t step) const {
    const double lowest = settings_.lowest_share;
    const int64_t decay = settings_.num_decay_steps;
    const int64_t stable = settings_.num_stable_steps.value_or(num_steps_ - warmup_ - decay);
    const auto above_lowest = [&](double share) {
        return std::max(0.0, share * (1.0 - lowest) + lowest);
    };
    if (step < warmup_) {
        const double progress = ratio(step, warmup_);
        switch (settings_.warmup_course) {
            case Course::linear: return above_lowest(progress);
            case Course::cosine: return above_lowest(0.5 * (1.0 - std::cos(pi * progress)));
            case Course::root: return above_lowest(1.0 - std::sqrt(1.0 - progress));
            case Course::square:            // of a cosine alone
            case Course::logarithm: break;  // of DeepSpeed's schedules alone
        }
    }
    if (step < warmup_ + stable) return 1.0;
    if (step >= warmup_ + stable + decay) return lowest;
    const double progress = ratio(step - warmup_ - stable, decay);
    switch (settings_.decay_course) {
        case Course::linear: return above_lowest(1.0 - progress);
        case Course::root: return above_lowest(1.0 - std::sqrt(progress));
        case Course::cosine:
        case Course::square:
        case Course::logarithm: break;
    }
    return above_lowest(0.5 * (1.0 + std::cos(pi * settings_.num_cycles * 2.0 * progress)));
}

// DeepSpeed's engine advances its schedule after a step, from -1: step 0 has the lowest rate, and
// step n has the rate of the schedule at n - 1.
double Schedule::deepspeed(int64_t step) const {
    const double first = settings_.first_share.value_or(0);
    const bool is_cosine = kind_ == Kind::deepspeed_warmup_cosine;
    if (step == 0) return is_cosine ? 0.0 : first;
    const int64_t advanced = step - 1;
    const int64_t warmup = std::max<int64_t>(2, warmup_);
    if (advanced < warmup) {
        const bool is_linear = settings_.warmup_course == Course::linear;
        const double risen = is_linear ? ratio(advanced, warmup)
                                       : 1.0 / std::log(static_cast<double>(warmup)) *
                                             std::log(static_cast<double>(step));
        return first + risen * (1.0 - first);
    }
    const int64_t end = settings_.total_num_steps.value_or(num_steps_);
    if (kind_ == Kind::deepspeed_warmup) return 1.0;
    if (!is_cosine)  // 0 falls to the first rate, as in DeepSpeed
        return first + (1.0 - first) * std::max(0.0, ratio(end - advanced, end - warmup));
    const double progress = std::min(1.0, ratio(step - warmup, end - warmup));
    const double wave = (1 + std::cos(pi * progress)) / 2;
    return std::max(0.0, settings_.lowest_share + (1.0 - settings_.lowest_share) * wave);
}

}  // namespace ringshard::optim
