#include "magnitudes.hpp"

#include <algorithm>
#include <map>

#include "model_parts.hpp"
#include "parts/row_norms.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/adapters.hpp"

namespace ringshard::model {

namespace {

// Norms, by the name of the tensor.
using Tensors = std::map<std::string, at::Tensor>;

at::Tensor view_of(const at::Tensor& flat, const shard::PlacedTensor& tensor) {
    return flat.narrow(0, tensor.offset, tensor.size).view(tensor.spec.shape);
}

// The norms of the rows of the weights in a unit that have magnitudes, by the names of these.
// Gathers the unit.
void add_norms(const std::map<std::string, std::string>& magnitude_of, size_t unit,
               shard::Zero& zero, Tensors& norms) {
    const auto& tensors = zero.units()[unit].tensors();
    if (std::ranges::none_of(tensors, [&](const shard::PlacedTensor& tensor) {
            return magnitude_of.contains(tensor.spec.name);
        }))
        return;
    zero.begin_pass({unit});
    const at::Tensor flat = zero.weights(unit);
    for (const shard::PlacedTensor& tensor : tensors)
        if (const auto found = magnitude_of.find(tensor.spec.name); found != magnitude_of.end())
            norms[found->second] = row_norms(view_of(flat, tensor));
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

bool has_magnitudes(const BlockSpec& block) {
    return std::ranges::any_of(block.adapters,
                               [](const auto& adapter) { return adapter.second.has_magnitude; });
}

void set_magnitudes(const ModelSpec& spec, shard::Zero& zero) {
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        std::map<std::string, std::string> magnitude_of;  // by the name of the weight
        for (const auto& [layer, adapter] : spec.blocks[block].adapters)
            if (const std::string name = block_prefix(spec, block) + layer; adapter.has_magnitude)
                magnitude_of[name + ".weight"] = name + ".lora_magnitude_vector";
        if (magnitude_of.empty()) continue;
        std::vector<size_t> units;
        for (size_t unit = 0; unit < zero.num_units(); ++unit)
            if (zero.units()[unit].module() == ModuleIndex::block(block)) units.push_back(unit);
        Tensors norms;
        for (const size_t unit : units) add_norms(magnitude_of, unit, zero, norms);
        for (const size_t unit : units) store(norms, unit, zero);
    }
}

}  // namespace ringshard::model
