#include "ringshard/optim/optimizer.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>
#include <utility>

#include "optimizers.hpp"

namespace ringshard::optim {

namespace {

FirstPlaces first_places(const shard::Zero& zero) {
    std::vector<std::map<std::string, int64_t>> places(zero.num_variants());
    for (const shard::FlatUnit& unit : zero.units())
        for (const shard::PlacedTensor& tensor : unit.tensors())
            if (unit.is_trained())
                places[tensor.variant][tensor.spec.name] =
                    c10::multiply_integers(tensor.spec.shape);
    for (auto& of_variant : places) {
        int64_t before = 0;
        for (auto& [name, place] : of_variant) before += std::exchange(place, before);
    }
    FirstPlaces first;
    for (const shard::FlatUnit& unit : zero.units()) {
        std::vector<int64_t>& of_unit = first.emplace_back();
        for (const shard::PlacedTensor& tensor : unit.tensors())
            of_unit.push_back(unit.is_trained() ? places[tensor.variant].at(tensor.spec.name) : 0);
    }
    return first;
}

}  // namespace

Optimizer::Optimizer(const shard::Zero& zero, const config::TrainingSettings& settings,
                     offload::OffloadStore* offload_store)
    : groups_(settings),
      usual_{0, 1, settings.weight_decay, settings.loraplus_lr_ratio, settings.warmup_steps},
      first_places_(first_places(zero)) {
    for (const shard::Shelf& shelf : zero.shelves())
        if (shelf.placement.is_trained)
            updaters_.push_back(kind_of(groups_.optimizers().at(shelf.placement.updater), settings)
                                    .make({zero, shelf, settings, groups_, offload_store}));
}

void Optimizer::forget() {
    steps_done_ = 0;
    for (const auto& updater : updaters_)
        for (const State& state : updater->states())
            for (size_t chunk = 0; chunk < state.chunks->size(); ++chunk) {
                at::Tensor numbers = state.numbers->load(chunk, shard::Access::overwrite);
                numbers.zero_();
                state.numbers->store(chunk, std::move(numbers));
            }
}

int64_t Optimizer::memory() const {
    int64_t bytes = 0;
    for (const auto& updater : updaters_)
        for (const State& state : updater->states()) bytes += state.numbers->bytes();
    return bytes;
}

double Optimizer::product_operations() const {
    double operations = 0;
    for (const auto& updater : updaters_) operations += updater->product_operations();
    return operations;
}

int64_t Optimizer::own_bytes(const shard::Zero& zero) const {
    int64_t bytes = 0;
    for (const auto& updater : updaters_)
        for (size_t unit = 0; unit < zero.num_units(); ++unit) {
            if (&zero.shelf_of(unit) != &updater->shelf()) continue;
            for (const State& state : updater->states())
                bytes += state.exclusive_range(zero, unit).size() *
                         static_cast<int64_t>(c10::elementSize(state.spec.type));
        }
    return bytes;
}

void Optimizer::step(shard::Zero& zero, std::span<const std::optional<Update>> updates) {
    ++steps_done_;
    zero.shelves();  // waits for the weights
    for (const auto& updater : updaters_) updater->step({steps_done_, updates, first_places_});
    zero.mark_updated();
}

void Optimizer::step(shard::Zero& zero, double learning_rate, double gradient_scale) {
    Update update = usual_;
    update.learning_rate = learning_rate;
    update.gradient_scale = gradient_scale;
    step(zero, std::vector<std::optional<Update>>(zero.num_variants(), update));
}

bool Optimizer::has_points_of_gradients() const {
    return std::ranges::any_of(updaters_, [](const std::unique_ptr<Updater>& updater) {
        return updater->shelf().placement.keeps_masters;
    });
}

void Optimizer::begin_training(shard::Zero& zero) {
    if (!has_points_of_gradients() || !zero.computes_with_masters()) return;
    zero.shelves();  // waits for the weights
    const std::vector<std::optional<Update>> none(zero.num_variants());
    for (const auto& updater : updaters_)
        if (updater->shelf().placement.keeps_masters)
            updater->step({steps_done_, none, first_places_});
    zero.mark_updated();
    zero.refresh_compute_weights();
}

void Optimizer::begin_evaluation(shard::Zero& zero) const {
    if (has_points_of_gradients() && !zero.computes_with_masters()) zero.refresh_compute_weights();
}

std::unique_ptr<Optimizer> make_optimizer(const shard::Zero& zero,
                                          const config::TrainingSettings& settings,
                                          offload::OffloadStore* offload_store) {
    return std::make_unique<Optimizer>(zero, settings, offload_store);
}

double clip_scale(double norm, double max_norm) {
    return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace ringshard::optim
