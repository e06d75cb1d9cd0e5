#include "optimizers.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

class AdamW final : public Optimizer {
public:
    AdamW(const shard::Zero& zero, const config::TrainingSettings& settings,
          offload::OffloadStore* offload_store)
        : Optimizer(zero, settings, adamw_state_names(), offload_store), settings_(settings) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::adamw({slice.weights, slice.states[0], slice.states[1], slice.gradient, slice.rounded,
                    slice.first_place},
                   {size.learning_rate, settings_.adam_beta1, settings_.adam_beta2,
                    settings_.adam_epsilon, slice.weight_decay, size.gradient_scale, size.step});
    }

    config::TrainingSettings settings_;
};

}  // namespace

std::vector<std::string> adamw_state_names() { return {"exp_avg", "exp_avg_sq"}; }

std::unique_ptr<Optimizer> make_adamw(const shard::Zero& zero,
                                      const config::TrainingSettings& settings,
                                      offload::OffloadStore* offload_store) {
    return std::make_unique<AdamW>(zero, settings, offload_store);
}

}  // namespace ringshard::optim
