#include "optimizers.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

class Lion final : public Optimizer {
public:
    Lion(const shard::Zero& zero, const config::TrainingSettings& settings,
         offload::OffloadStore* offload_store)
        : Optimizer(zero, settings, lion_state_names(), offload_store), settings_(settings) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::lion(
            {slice.weights, slice.states[0], slice.gradient, slice.rounded, slice.first_place},
            {size.learning_rate, settings_.adam_beta1, settings_.adam_beta2, slice.weight_decay,
             size.gradient_scale, size.step});
    }

    config::TrainingSettings settings_;
};

}  // namespace

std::vector<std::string> lion_state_names() { return {"exp_avg"}; }

std::unique_ptr<Optimizer> make_lion(const shard::Zero& zero,
                                     const config::TrainingSettings& settings,
                                     offload::OffloadStore* offload_store) {
    return std::make_unique<Lion>(zero, settings, offload_store);
}

}  // namespace ringshard::optim
