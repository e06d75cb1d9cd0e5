#include "ringshard/optim/optimizer.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>

#include "optimizers.hpp"

namespace ringshard::optim {

namespace {

std::unique_ptr<shard::FlatStore> make_zeros(const shard::Zero& zero, at::ScalarType type,
                                             offload::OffloadStore* offload_store) {
    const shard::Chunks& chunks = zero.chunks();
    if (offload_store != nullptr) return shard::keep_offloaded(chunks, type, *offload_store);
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < chunks.num_units(); ++unit)
        shards.push_back(
            at::zeros({chunks.shard(unit).size()}, at::TensorOptions(zero.device()).dtype(type)));
    return shard::keep_in_memory(chunks, std::move(shards));
}

}  // namespace

Optimizer::Optimizer(const shard::Zero& zero, const config::TrainingSettings& settings,
                     const std::vector<std::string>& state_names,
                     offload::OffloadStore* offload_store)
    : weight_decay_(settings.weight_decay), loraplus_lr_ratio_(settings.loraplus_lr_ratio) {
    const bool is_bf16 = settings.optimizer_state_dtype == config::NumberType::bf16;
    for (const std::string& name : state_names)
        states_.push_back(
            {name, make_zeros(zero, is_bf16 ? at::kBFloat16 : at::kFloat, offload_store)});
}

void Optimizer::forget(const shard::Zero& zero) {
    steps_done_ = 0;
    for (const State& state : states_)
        for (size_t chunk = 0; chunk < zero.chunks().size(); ++chunk) {
            at::Tensor numbers = state.numbers->load(chunk, shard::Access::overwrite);
            numbers.zero_();
            state.numbers->store(chunk, std::move(numbers));
        }
}

int64_t Optimizer::memory() const {
    int64_t bytes = 0;
    for (const State& state : states_) bytes += state.numbers->bytes();
    return bytes;
}

int64_t Optimizer::bytes_per_weight() const {
    int64_t bytes = 0;
    for (const State& state : states_)
        bytes += static_cast<int64_t>(c10::elementSize(state.numbers->type()));
    return bytes;
}

void Optimizer::step(shard::Zero& zero, double learning_rate, double gradient_scale) {
    using shard::Access;
    ++steps_done_;
    int64_t places_before = 0;
    for (size_t chunk = 0; chunk < zero.chunks().size(); ++chunk) {
        const auto& [unit, range] = zero.chunks()[chunk];
        const at::Tensor weights = zero.weight_shards().load(chunk, Access::read);
        std::vector<at::Tensor> states;
        for (const State& state : states_)
            states.push_back(state.numbers->load(chunk, Access::read));
        const at::Tensor gradient = zero.gradient_shards().load(chunk, Access::read);
        const at::Tensor rounded =
            zero.rounded() ? zero.rounded()->load(chunk, Access::overwrite) : at::Tensor();

        const auto update_part = [&](const shard::Range& part, double rate, double weight_decay) {
            const shard::Range mine = intersect(part, range);
            if (mine.size() == 0) return;
            const auto cut = [&](const at::Tensor& flat) {
                return flat.defined() ? flat.narrow(0, mine.begin - range.begin, mine.size())
                                      : at::Tensor();
            };
            std::vector<at::Tensor> states_here;
            for (const at::Tensor& state : states) states_here.push_back(cut(state));
            update({cut(weights), std::move(states_here), cut(gradient), cut(rounded),
                    places_before + mine.begin, weight_decay},
                   {rate, gradient_scale, steps_done_});
        };
        const shard::FlatUnit& layout = zero.units()[unit];
        const double output_rate = learning_rate * loraplus_lr_ratio_;
        update_part({0, layout.matrices_end()}, learning_rate, weight_decay_);
        update_part({layout.matrices_end(), layout.decaying_end()}, output_rate, weight_decay_);
        update_part({layout.decaying_end(), layout.size()}, output_rate, 0.0);

        zero.weight_shards().store(chunk, weights);
        for (size_t i = 0; i < states.size(); ++i) states_[i].numbers->store(chunk, states[i]);
        if (zero.rounded()) zero.rounded()->store(chunk, rounded);
        if (chunk + 1 == zero.chunks().end_of(unit)) places_before += layout.size();
    }
    zero.mark_updated();
}

std::unique_ptr<Optimizer> make_optimizer(const shard::Zero& zero,
                                          const config::TrainingSettings& settings,
                                          offload::OffloadStore* offload_store) {
    switch (settings.optim) {
        case config::Optimizer::adamw: return make_adamw(zero, settings, offload_store);
        case config::Optimizer::lion: return make_lion(zero, settings, offload_store);
    }
    RINGSHARD_CHECK(false, "an optimizer that nobody makes");
}

std::vector<std::string> state_names(config::Optimizer kind) {
    switch (kind) {
        case config::Optimizer::adamw: return adamw_state_names();
        case config::Optimizer::lion: return lion_state_names();
    }
    RINGSHARD_CHECK(false, "an optimizer that nobody makes");
}

int64_t state_bytes(const config::TrainingSettings& settings) {
    const bool is_bf16 = settings.optimizer_state_dtype == config::NumberType::bf16;
    return std::ssize(state_names(settings.optim)) * (is_bf16 ? 2 : 4);
}

int64_t update_bytes(const config::TrainingSettings& settings) {
    constexpr int64_t fp32 = 4;
    return 2 * (fp32 + state_bytes(settings)) + fp32;
}

double clip_scale(double norm, double max_norm) {
    return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace ringshard::optim
