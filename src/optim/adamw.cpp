#include "optimizers.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

class AdamW final : public Updater {
public:
    explicit AdamW(const UpdaterContext& context)
        : Updater(context),
          decouples_(config::read_optim_args(context.settings, config::Optimizer::adamw)
                         .value()
                         .decoupled_weight_decay) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        double scale = size.gradient_scale;
        double decay = size.weight_decay;
        if (!decouples_ && decay > 0) {
            slice.gradient.mul_(scale).add_(slice.weights, decay);
            scale = 1;
            decay = 0;
        }
        ops::adamw({slice.weights, slice.states[0], slice.states[1], slice.gradient, slice.rounded,
                    slice.first_place},
                   {size.learning_rate, size.beta1, size.beta2, settings().adam_epsilon, decay,
                    scale, size.step});
    }

    bool decouples_;
};

}  // namespace

OptimizerKind adamw_kind() { return {{{"exp_avg"}, {"exp_avg_sq"}}, &make_updater<AdamW>}; }

}  // namespace ringshard::optim
