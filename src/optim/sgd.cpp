#include "optimizers.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

config::OptimizerArguments arguments_of(const config::TrainingSettings& settings) {
    return config::read_optim_args(settings, config::Optimizer::sgd).value();
}

class Sgd final : public Updater {
public:
    explicit Sgd(const UpdaterContext& context)
        : Updater(context), arguments_(arguments_of(context.settings)) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::sgd({slice.weights, slice.states.empty() ? at::Tensor() : slice.states[0],
                  slice.gradient, slice.rounded, slice.first_place},
                 {size.learning_rate, arguments_.momentum, arguments_.dampening,
                  arguments_.nesterov, size.weight_decay, size.gradient_scale, size.step});
    }

    config::OptimizerArguments arguments_;
};

}  // namespace

OptimizerKind sgd_kind(const config::TrainingSettings& settings) {
    OptimizerKind kind{{}, &make_updater<Sgd>};
    if (arguments_of(settings).momentum > 0) kind.states.push_back({"momentum_buffer"});
    return kind;
}

}  // namespace ringshard::optim
