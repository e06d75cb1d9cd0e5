#include "ringshard/optim/adamw.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/ops/flat.hpp"

namespace ringshard::optim {

namespace {

std::unique_ptr<shard::FlatStore> no_moments(const shard::Zero& zero, at::ScalarType type,
                                             offload::Depot* depot) {
    const shard::Slots& slots = zero.slots();
    if (depot != nullptr) return shard::keep_in_depot(slots, type, *depot);
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < slots.num_units(); ++unit)
        shards.push_back(
            at::zeros({slots.shard(unit).size()}, at::TensorOptions(zero.device()).dtype(type)));
    return shard::keep_in_memory(slots, std::move(shards));
}

}  // namespace

AdamW::AdamW(const shard::Zero& zero, const config::TrainingSettings& settings,
             offload::Depot* depot)
    : settings_(settings) {
    const bool is_bf16 = settings.optimizer_state_dtype == config::NumberType::bf16;
    const at::ScalarType type = is_bf16 ? at::kBFloat16 : at::kFloat;
    first_ = no_moments(zero, type, depot);
    second_ = no_moments(zero, type, depot);
}

void AdamW::forget(const shard::Zero& zero) {
    steps_done_ = 0;
    for (const auto& moments : {first_.get(), second_.get()})
        for (size_t slot = 0; slot < zero.slots().size(); ++slot) {
            at::Tensor numbers = moments->take(slot, shard::Content::overwritten);
            numbers.zero_();
            moments->put_back(slot, std::move(numbers));
        }
}

void AdamW::step(shard::Zero& zero, double learning_rate, double gradient_scale) {
    ++steps_done_;
    using shard::Content;
    int64_t places_before = 0;
    for (size_t slot = 0; slot < zero.slots().size(); ++slot) {
        const auto& [unit, range] = zero.slots()[slot];
        const at::Tensor weights = zero.weight_shards().take(slot, Content::kept);
        const at::Tensor first = first_->take(slot, Content::kept);
        const at::Tensor second = second_->take(slot, Content::kept);
        const at::Tensor gradient = zero.gradient_shards().take(slot, Content::kept);
        const at::Tensor rounded =
            zero.rounded() ? zero.rounded()->take(slot, Content::overwritten) : at::Tensor();

        const auto update = [&](const shard::Range& part, double decay) {
            const shard::Range mine = intersect(part, range);
            if (mine.size() == 0) return;
            const auto cut = [&](const at::Tensor& flat) {
                return flat.narrow(0, mine.begin - range.begin, mine.size());
            };
            ops::adamw(
                {cut(weights), cut(first), cut(second), cut(gradient),
                 rounded.defined() ? cut(rounded) : at::Tensor(), places_before + mine.begin},
                {learning_rate, settings_.adam_beta1, settings_.adam_beta2, settings_.adam_epsilon,
                 decay, gradient_scale, steps_done_});
        };
        const shard::FlatUnit& layout = zero.units()[unit];
        update({0, layout.matrices_end()}, settings_.weight_decay);
        update({layout.matrices_end(), layout.size()}, 0.0);

        zero.weight_shards().put_back(slot, weights);
        first_->put_back(slot, first);
        second_->put_back(slot, second);
        if (zero.rounded()) zero.rounded()->put_back(slot, rounded);
        if (slot + 1 == zero.slots().end_of(unit)) places_before += layout.size();
    }
    zero.note_update();
}

double clip_scale(double norm, double max_norm) {
    return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace ringshard::optim
