#include "ringshard/optim/adamw.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

AdamW::AdamW(const shard::Zero& zero, const config::TrainingSettings& settings)
    : settings_(settings) {
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        const at::Tensor& weights = zero.shard(unit).weights;
        moments_.push_back({at::zeros_like(weights), at::zeros_like(weights)});
    }
}

void AdamW::step(shard::Zero& zero, double learning_rate, double gradient_scale) {
    ++steps_done_;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        shard::Zero::Shard& shard = zero.shard(unit);
        const auto update = [&](const shard::Range& part, double decay) {
            const shard::Range mine = intersect(part, shard.range);
            if (mine.size() == 0) return;
            const auto cut = [&](const at::Tensor& flat) {
                return flat.narrow(0, mine.begin - shard.range.begin, mine.size());
            };
            ops::adamw(
                {cut(shard.weights), cut(moments_[unit].first), cut(moments_[unit].second),
                 cut(shard.gradient), shard.rounded.defined() ? cut(shard.rounded) : at::Tensor()},
                {learning_rate, settings_.adam_beta1, settings_.adam_beta2, settings_.adam_epsilon,
                 decay, gradient_scale, steps_done_});
        };
        const shard::FlatUnit& layout = zero.units()[unit];
        update({0, layout.matrices_end()}, settings_.weight_decay);
        update({layout.matrices_end(), layout.size()}, 0.0);
        shard.gradient_is_clear = true;
        shard.is_rounded = true;
    }
}

double clip_scale(double norm, double max_norm) {
    return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace ringshard::optim
