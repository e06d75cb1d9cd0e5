#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/ops/flat.hpp"
#include "ringshard/optim/optimizer.hpp"

namespace ringshard::optim {

namespace {

std::unique_ptr<shard::FlatStore> make_zeros(const UpdaterContext& context,
                                             const shard::Chunks& chunks, const StateSpec& spec) {
    if (context.offload_store != nullptr && !spec.is_factor())
        return shard::keep_offloaded(chunks, spec.type, *context.offload_store);
    std::vector<at::Tensor> shards;
    for (size_t unit = 0; unit < chunks.num_units(); ++unit)
        shards.push_back(at::zeros({chunks.shard(unit).size()},
                                   at::TensorOptions(context.zero.device()).dtype(spec.type)));
    return shard::keep_in_memory(chunks, std::move(shards));
}

// A factor has one chunk for each unit: the numbers of this rank's section.
shard::Chunks chunks_of(const UpdaterContext& context, const StateSpec& spec) {
    if (!spec.is_factor()) return context.shelf.chunks.of_blocks(spec.weights);
    std::vector<shard::Range> units;
    for (size_t unit = 0; unit < context.zero.num_units(); ++unit) {
        shard::Range& numbers = units.emplace_back();
        if (&context.zero.shelf_of(unit) != &context.shelf) continue;
        for (const shard::TensorPiece& piece :
             spec.pieces(context.zero.units()[unit], context.zero.section_range(unit)))
            numbers.end = piece.in_range + piece.size;
    }
    return shard::Chunks(units, shard::Chunks::whole_shards);
}

}  // namespace

shard::Range State::exclusive_range(const shard::Zero& zero, size_t unit) const {
    const shard::Range mine = zero.exclusive_range(unit);
    if (!spec.is_factor()) return {mine.begin / spec.weights, mine.end / spec.weights};
    const shard::Range section = zero.section_range(unit);
    return shard::part_of(chunks->shard(unit).size(), (mine.begin - section.begin) / mine.size(),
                          section.size() / mine.size());
}

Updater::Updater(const UpdaterContext& context)
    : settings_(context.settings),
      zero_(context.zero),
      groups_(context.groups),
      shelf_(context.shelf) {
    for (const StateSpec& spec : groups_.states_of(shelf_.placement.updater)) {
        State& state =
            states_.emplace_back(spec, std::make_unique<shard::Chunks>(chunks_of(context, spec)));
        state.numbers = make_zeros(context, *state.chunks, spec);
    }
}

Updater::Loaded Updater::load(size_t chunk) const {
    using shard::Access;
    Loaded loaded{
        shelf_.chunks[chunk].range,
        shelf_.exact().load(chunk, Access::read),
        {},
        shelf_.gradients->load(chunk, Access::read),
        shelf_.rounded() ? shelf_.rounded()->load(chunk, Access::overwrite) : at::Tensor()};
    for (const State& state : states_)
        loaded.states.push_back(state.spec.is_factor() ? at::Tensor()
                                                       : state.numbers->load(chunk, Access::read));
    return loaded;
}

void Updater::store(size_t chunk, Loaded loaded) const {
    shelf_.exact().store(chunk, std::move(loaded.weights));
    for (size_t i = 0; i < states_.size(); ++i)
        if (!states_[i].spec.is_factor())
            states_[i].numbers->store(chunk, std::move(loaded.states[i]));
    if (shelf_.rounded()) shelf_.rounded()->store(chunk, std::move(loaded.rounded));
}

Updater::Slice Updater::cut(const Loaded& chunk, size_t unit, const shard::Range& part,
                            int64_t first_place) const {
    const int64_t before = part.begin - chunk.range.begin;
    const auto narrow = [&](const at::Tensor& flat, int64_t weights) {
        return flat.defined() ? flat.narrow(0, before / weights, part.size() / weights)
                              : at::Tensor();
    };
    Slice slice{narrow(chunk.weights, 1),
                {},
                narrow(chunk.gradient, 1),
                narrow(chunk.rounded, 1),
                first_place,
                unit,
                part};
    for (size_t i = 0; i < states_.size(); ++i)
        slice.states.push_back(narrow(chunk.states[i], states_[i].spec.weights));
    return slice;
}

StepSize Updater::size_of(const Update& update, const shard::FlatUnit::UpdateRange& alike,
                          int64_t step) const {
    using shard::UpdateKind;
    const double own_rate = alike.kind == UpdateKind::decaying ? 1 : update.output_rate;
    StepSize size{{update.learning_rate * own_rate,
                   alike.kind == UpdateKind::at_own_rate ? 0.0 : update.weight_decay,
                   update.gradient_scale, step},
                  settings_.adam_beta1,
                  settings_.adam_beta2,
                  alike.variant};
    if (alike.rule == 0) return size;
    const config::UpdateRule& rule = groups_.rules().at(alike.rule - 1);
    size.learning_rate *= rule.rate;
    size.weight_decay = rule.weight_decay.value_or(size.weight_decay);
    size.beta1 = rule.beta1.value_or(size.beta1);
    size.beta2 = rule.beta2.value_or(size.beta2);
    return size;
}

void Updater::step(const Step& step) {
    for (size_t chunk = 0; chunk < shelf_.chunks.size(); ++chunk) {
        Loaded loaded = load(chunk);
        update(loaded, shelf_.chunks[chunk].unit, step);
        store(chunk, std::move(loaded));
    }
}

void Updater::update(const Loaded& chunk, size_t unit, const Step& step) const {
    const shard::FlatUnit& layout = zero_.units()[unit];
    for (const shard::FlatUnit::UpdateRange& alike : layout.update_ranges()) {
        const std::optional<Update>& asked = step.updates[alike.variant];
        const StepSize size = size_of(asked.value_or(Update{}), alike, step.number);
        const shard::Range mine = intersect(alike.range, chunk.range);
        for (const auto& [part, place] : parts_of(unit, mine, step.first_places)) {
            const Slice slice = cut(chunk, unit, part, place);
            if (asked)
                update(slice, size);
            else
                keep(slice, size);
        }
    }
}

// The whole range, or its tensors where moments in bf16 are rounded by the places of elements.
std::vector<Updater::PlacedRange> Updater::parts_of(size_t unit, const shard::Range& range,
                                                    const FirstPlaces& first_places) const {
    if (range.size() == 0) return {};
    if (std::ranges::none_of(states_,
                             [](const State& state) { return state.spec.type == at::kBFloat16; }))
        return {{range, 0}};
    const shard::FlatUnit& layout = zero_.units()[unit];
    std::vector<PlacedRange> parts;
    for (const shard::TensorPiece& piece : layout.pieces(range)) {
        const int64_t begin = range.begin + piece.in_range;
        const auto tensor = static_cast<size_t>(piece.tensor - layout.tensors().data());
        parts.push_back({{begin, begin + piece.size}, first_places[unit][tensor] + piece.first});
    }
    return parts;
}

void Updater::keep(const Slice& slice, const StepSize&) const {
    if (slice.rounded.defined()) ops::cast(slice.rounded, slice.weights);
}

}  // namespace ringshard::optim
