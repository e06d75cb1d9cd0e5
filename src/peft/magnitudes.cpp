#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>

#include "ringshard/ops/row_norms.hpp"
#include "ringshard/peft/named_adapters.hpp"

namespace ringshard::peft {

namespace {

// Norms, by the name of the tensor.
using Tensors = std::map<std::string, at::Tensor>;
// Names of magnitudes, by that of their weight: one of each adapter.
using Names = std::map<std::string, std::vector<std::string>>;

// The numbers of the compute type that a gathered unit has, or stands for.
at::Tensor matrix_of(const shard::FlatUnit& unit, const at::Tensor& flat, size_t number,
                     at::ScalarType compute_type) {
    const shard::PlacedTensor& tensor = unit.tensors()[number];
    if (unit.codes() == nullptr)
        return flat.narrow(0, tensor.offset, tensor.size).view(tensor.spec.shape);
    const std::vector<shard::TensorPiece> matrices = unit.pieces({0, unit.section_size()});
    const auto place = std::ranges::find(matrices, &tensor, &shard::TensorPiece::tensor);
    const at::Tensor matrix = at::empty(tensor.spec.shape, flat.options().dtype(compute_type));
    unit.codes()->dequantize(matrix, flat, static_cast<size_t>(place - matrices.begin()));
    return matrix;
}

// The norms of the rows of the weights in a unit that have magnitudes, by the names of these.
// Gathers the unit.
void add_norms(const Names& magnitudes_of, size_t unit, shard::Zero& zero, Tensors& norms) {
    const auto& tensors = zero.units()[unit].tensors();
    if (std::ranges::none_of(tensors, [&](const shard::PlacedTensor& tensor) {
            return magnitudes_of.contains(tensor.spec.name);
        }))
        return;
    zero.begin_pass({unit});
    const at::Tensor flat = zero.weights(unit);
    for (size_t number = 0; number < tensors.size(); ++number)
        if (const auto found = magnitudes_of.find(tensors[number].spec.name);
            found != magnitudes_of.end()) {
            const at::Tensor of_rows =
                ops::row_norms(matrix_of(zero.units()[unit], flat, number, zero.compute_type()));
            for (const std::string& name : found->second) norms[name] = of_rows;
        }
    zero.release(unit, shard::Zero::NextUse::none);
}

// Overwrites the tensors that this rank's shard of the unit holds parts of.
void store(const Tensors& values, size_t unit, shard::Zero& zero) {
    const auto [chunks, shards] = zero.weights_at_rest_of(unit);
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(chunks[chunk].range))
            if (const auto found = values.find(piece.tensor->spec.name); found != values.end())
                numbers.narrow(0, piece.in_range, piece.size)
                    .copy_(found->second.narrow(0, piece.first, piece.size));
        shards.store(chunk, numbers);
    }
}

}  // namespace

namespace {

// Of all learners. A tied head has the weight of the embedding.
Names find_magnitudes(const model::ModelSpec& spec) {
    Names magnitudes_of;
    for (size_t learner = 0; learner < spec.adapters.size(); ++learner)
        for (const auto& [layer, adapter] : spec.layers_of(learner)) {
            if (!adapter.has_magnitude) continue;
            const bool is_of_embedding = spec.tied && layer == spec.names.head;
            const std::string& weight = is_of_embedding ? spec.names.embedding : layer;
            magnitudes_of[weight + ".weight"].push_back(
                name_among(layer + ".lora_magnitude_vector", spec.adapters[learner].name));
        }
    return magnitudes_of;
}

}  // namespace

void set_magnitudes(const model::ModelSpec& spec, shard::Zero& zero) {
    const Names magnitudes_of = find_magnitudes(spec);
    if (magnitudes_of.empty()) return;
    std::map<size_t, std::vector<size_t>> units_of;  // by module
    for (size_t unit = 0; unit < zero.num_units(); ++unit)
        units_of[zero.units()[unit].module()].push_back(unit);
    for (const auto& [module, units] : units_of) {
        Tensors norms;
        for (const size_t unit : units) add_norms(magnitudes_of, unit, zero, norms);
        if (norms.empty()) continue;
        for (const size_t unit : units) store(norms, unit, zero);
    }
}

}  // namespace ringshard::peft
