#include "optimizers.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

// transformers' Trainer gives torch.optim.RMSprop a rate and a decay alone.
constexpr double keeps = 0.99;
constexpr double epsilon = 1e-8;

class Rmsprop final : public Updater {
public:
    using Updater::Updater;

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::rmsprop(
            {slice.weights, slice.states[0], slice.gradient, slice.rounded, slice.first_place},
            {size.learning_rate, keeps, epsilon, size.weight_decay, size.gradient_scale,
             size.step});
    }
};

}  // namespace

OptimizerKind rmsprop_kind() { return {{{"square_avg"}}, &make_updater<Rmsprop>}; }

}  // namespace ringshard::optim
