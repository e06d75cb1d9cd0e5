#include <c10/util/accumulate.h>

#include <algorithm>

#include "optimizers.hpp"
#include "ringshard/ops/coded_moments.hpp"

namespace ringshard::optim {

namespace {

class AdamW8bit final : public Updater {
public:
    explicit AdamW8bit(const UpdaterContext& context)
        : Updater(context),
          signed_values_(ops::moment_values(true, context.zero.device())),
          unsigned_values_(ops::moment_values(false, context.zero.device())) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::coded_adamw({slice.weights,
                          {slice.states[0], slice.states[1], signed_values_},
                          {slice.states[2], slice.states[3], unsigned_values_},
                          slice.gradient,
                          slice.rounded},
                         {size.learning_rate, size.beta1, size.beta2, settings().adam_epsilon,
                          size.weight_decay, size.gradient_scale, size.step});
    }

    at::Tensor signed_values_;
    at::Tensor unsigned_values_;
};

}  // namespace

bool has_coded_moments(const shard::ParameterGroup& group) {
    constexpr int64_t least = 4096;
    return group.stand != shard::Stand::table &&
           std::ranges::all_of(group.tensors, [](const shard::TensorSpec& tensor) {
               const int64_t size = c10::multiply_integers(tensor.shape);
               return size >= least && size % ops::moment_block == 0;
           });
}

OptimizerKind adamw_8bit_kind() {
    return {.states = {{"exp_avg", at::kByte},
                       {"exp_avg_max", at::kFloat, ops::moment_block},
                       {"exp_avg_sq", at::kByte},
                       {"exp_avg_sq_max", at::kFloat, ops::moment_block}},
            .make = &make_updater<AdamW8bit>,
            .takes = &has_coded_moments,
            .others = config::Optimizer::adamw,
            .grain = ops::moment_block};
}

}  // namespace ringshard::optim
