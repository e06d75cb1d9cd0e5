#include "schedule_free.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

// SGD's point of gradients has this share of the average: the default of the package schedulefree.
constexpr double momentum_of_sgd = 0.9;

// The masters are the average, which evaluations and files get; the compute weights are the points
// at which gradients are taken.
class ScheduleFree final : public Updater {
public:
    explicit ScheduleFree(const UpdaterContext& context)
        : Updater(context),
          arguments_(config::read_optim_args(context.settings, context.groups.optimizers().at(
                                                                   context.shelf.placement.updater))
                         .value()),
          averages_(context.zero.num_variants()) {}

    void step(const Step& step) override {
        for (size_t variant = 0; variant < averages_.size(); ++variant)
            if (const auto& asked = step.updates[variant])
                advance(averages_[variant], step.number, asked->warmup_steps);
        Updater::step(step);
    }

private:
    // The average of a variant after some steps: it follows from their number alone, since the
    // learning rate is constant after the warm-up.
    struct Average {
        int64_t steps = 0;
        double weights = 0;      // the sum of those of all points
        double last_weight = 0;  // of the last point
        double warmed = 0;       // share of the learning rate at it
    };

    void advance(Average& average, int64_t steps, double warmup_steps) const {
        if (steps < average.steps) average = {};
        while (average.steps < steps) {
            const auto number = static_cast<double>(++average.steps);
            average.warmed = number < warmup_steps ? number / warmup_steps : 1;
            average.last_weight = std::pow(number, arguments_.r) *
                                  std::pow(average.warmed, arguments_.weight_lr_power);
            average.weights += average.last_weight;
        }
    }

    bool has_second_moment() const { return states().size() > 1; }

    ops::ScheduleFreeBuffers buffers_of(const Slice& slice, const at::Tensor& gradient) const {
        return {slice.weights, slice.states[0],
                has_second_moment() ? slice.states[1] : at::Tensor(), gradient, slice.rounded};
    }

    ops::ScheduleFreeStep step_of(const StepSize& size, const Average& average) const {
        return {size.learning_rate * average.warmed,
                has_second_moment() ? size.beta1 : momentum_of_sgd,
                size.beta2,
                settings().adam_epsilon,
                size.weight_decay,
                size.gradient_scale,
                average.weights > 0 ? average.last_weight / average.weights : 0,
                size.number};
    }

    void update(const Slice& slice, const StepSize& size) const override {
        ops::schedule_free(buffers_of(slice, slice.gradient),
                           step_of(size, averages_[size.variant]));
    }

    void keep(const Slice& slice, const StepSize& size) const override {
        ops::schedule_free(buffers_of(slice, {}), step_of(size, {}));
    }

    config::OptimizerArguments arguments_;
    std::vector<Average> averages_;
};

}  // namespace

OptimizerKind schedule_free(std::vector<StateSpec> states) {
    return {
        .states = std::move(states), .make = &make_updater<ScheduleFree>, .keeps_masters = true};
}

}  // namespace ringshard::optim
