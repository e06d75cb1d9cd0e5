#include "optimizers.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

class Lion final : public Updater {
public:
    using Updater::Updater;

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::lion(
            {slice.weights, slice.states[0], slice.gradient, slice.rounded, slice.first_place},
            {size.learning_rate, size.beta1, size.beta2, size.weight_decay, size.gradient_scale,
             size.step});
    }
};

}  // namespace

OptimizerKind lion_kind() { return {{{"exp_avg"}}, &make_updater<Lion>}; }

}  // namespace ringshard::optim
