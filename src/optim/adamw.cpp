#include "optimizers.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

class AdamW final : public Updater {
public:
    using Updater::Updater;

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::adamw({slice.weights, slice.states[0], slice.states[1], slice.gradient, slice.rounded,
                    slice.first_place},
                   {size.learning_rate, size.beta1, size.beta2, settings().adam_epsilon,
                    size.weight_decay, size.gradient_scale, size.step});
    }
};

}  // namespace

OptimizerKind adamw_kind() { return {{{"exp_avg"}, {"exp_avg_sq"}}, &make_updater<AdamW>}; }

}  // namespace ringshard::optim
