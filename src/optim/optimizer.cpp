#include "ringshard/optim/optimizer.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>

#include "optimizers.hpp"
#include "ringshard/config/parallel_settings.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/ops/flat.hpp"

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

// `first_place`: of the adapter's first element in this unit, among all elements of the adapter.
void Optimizer::update_range(const Loaded& chunk, const shard::FlatUnit::UpdateRange& alike,
                             const std::optional<Update>& asked, int64_t first_place) const {
    using Kind = shard::FlatUnit::UpdateKind;
    const shard::Range mine = intersect(alike.range, chunk.range);
    if (mine.size() == 0) return;
    const auto cut = [&](const at::Tensor& flat) {
        return flat.defined() ? flat.narrow(0, mine.begin - chunk.range.begin, mine.size())
                              : at::Tensor();
    };
    if (!asked) {
        if (chunk.rounded.defined()) ops::cast(cut(chunk.rounded), cut(chunk.weights));
        return;
    }
    std::vector<at::Tensor> states;
    for (const at::Tensor& state : chunk.states) states.push_back(cut(state));
    const double rate =
        asked->learning_rate * (alike.kind == Kind::decaying ? 1 : asked->output_rate);
    update({cut(chunk.weights), std::move(states), cut(chunk.gradient), cut(chunk.rounded),
            first_place + mine.begin, alike.kind == Kind::rest ? 0.0 : asked->weight_decay},
           {rate, asked->gradient_scale, steps_done_});
}

void Optimizer::step(shard::Zero& zero, std::span<const std::optional<Update>> updates) {
    using shard::Access;
    ++steps_done_;
    std::vector<int64_t> places_before(updates.size());  // of each adapter, in earlier units
    for (size_t chunk = 0; chunk < zero.chunks().size(); ++chunk) {
        const auto& [unit, range] = zero.chunks()[chunk];
        Loaded loaded{
            range,
            zero.weight_shards().load(chunk, Access::read),
            {},
            zero.gradient_shards().load(chunk, Access::read),
            zero.rounded() ? zero.rounded()->load(chunk, Access::overwrite) : at::Tensor()};
        for (const State& state : states_)
            loaded.states.push_back(state.numbers->load(chunk, Access::read));
        const shard::FlatUnit& layout = zero.units()[unit];
        for (const shard::FlatUnit::UpdateRange& alike : layout.update_ranges())
            update_range(loaded, alike, updates[alike.adapter],
                         places_before[alike.adapter] - layout.adapter_range(alike.adapter).begin);

        zero.weight_shards().store(chunk, loaded.weights);
        for (size_t i = 0; i < states_.size(); ++i)
            states_[i].numbers->store(chunk, loaded.states[i]);
        if (zero.rounded()) zero.rounded()->store(chunk, loaded.rounded);
        if (chunk + 1 == zero.chunks().end_of(unit))
            for (size_t adapter = 0; adapter < layout.num_adapters(); ++adapter)
                places_before[adapter] += layout.adapter_range(adapter).size();
    }
    zero.mark_updated();
}

void Optimizer::step(shard::Zero& zero, double learning_rate, double gradient_scale) {
    const std::vector<std::optional<Update>> updates(
        zero.num_adapters(),
        Update{learning_rate, gradient_scale, weight_decay_, loraplus_lr_ratio_});
    step(zero, updates);
}

std::unique_ptr<Optimizer> make_optimizer(const shard::Zero& zero,
                                          const config::TrainingSettings& settings,
                                          offload::OffloadStore* offload_store) {
    switch (settings.optim) {
        case config::Optimizer::adamw: return make_adamw(zero, settings, offload_store);
        case config::Optimizer::lion: return make_lion(zero, settings, offload_store);
    }
    RINGSHARD_CHECK(false, "unknown optimizer");
}

std::vector<std::string> state_names(config::Optimizer kind) {
    switch (kind) {
        case config::Optimizer::adamw: return adamw_state_names();
        case config::Optimizer::lion: return lion_state_names();
    }
    RINGSHARD_CHECK(false, "unknown optimizer");
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
