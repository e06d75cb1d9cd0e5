#include "optimizers.hpp"
#include "ringshard/ops/coded_moments.hpp"

namespace ringshard::optim {

namespace {

class Lion8bit final : public Updater {
public:
    explicit Lion8bit(const UpdaterContext& context)
        : Updater(context), values_(ops::moment_values(true, context.zero.device())) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::coded_lion({slice.weights,
                         {slice.states[0], slice.states[1], values_},
                         slice.gradient,
                         slice.rounded},
                        {size.learning_rate, size.beta1, size.beta2, size.weight_decay,
                         size.gradient_scale, size.step});
    }

    at::Tensor values_;
};

}  // namespace

OptimizerKind lion_8bit_kind() {
    return {.states = {{"exp_avg", at::kByte}, {"exp_avg_max", at::kFloat, ops::moment_block}},
            .make = &make_updater<Lion8bit>,
            .takes = &has_coded_moments,
            .others = config::Optimizer::lion,
            .grain = ops::moment_block};
}

}  // namespace ringshard::optim
