#include "magnitudes.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>

#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/ops/row_norms.hpp"
#include "ringshard/peft/adapters.hpp"

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

bool has_magnitudes(const model::BlockSpec& block) {
    const auto has_any = [](const std::map<std::string, model::AdapterSpec>& layers) {
        return std::ranges::any_of(
            layers, [](const auto& adapter) { return adapter.second.has_magnitude; });
    };
    return has_any(block.adapters) ||
           std::ranges::any_of(block.variants, [&](const model::AdapterVariant& adapter) {
               return has_any(adapter.layers);
           });
}

namespace {

std::string magnitudes_name(const std::string& layer, const std::string& ending) {
    return format_text("{}.lora_magnitude_vector{}", layer, ending);
}

Names names_in_block(const model::ModelSpec& spec, size_t block) {
    Names magnitudes_of;
    const auto add = [&](const std::map<std::string, model::AdapterSpec>& layers,
                         const std::string& ending) {
        for (const auto& [layer, adapter] : layers)
            if (const std::string name = model::block_prefix(spec, block) + layer;
                adapter.has_magnitude)
                magnitudes_of[name + ".weight"].push_back(magnitudes_name(name, ending));
    };
    add(spec.blocks[block].adapters, "");
    for (const model::AdapterVariant& adapter : spec.blocks[block].variants)
        add(adapter.layers, "." + adapter.name);
    return magnitudes_of;
}

Names names_in_head(const model::ModelSpec& spec) {
    std::vector<std::string> magnitudes;
    const auto add = [&](const std::optional<model::AdapterSpec>& adapter,
                         const std::string& ending) {
        if (adapter && adapter->has_magnitude)
            magnitudes.push_back(magnitudes_name(spec.names.head, ending));
    };
    add(spec.head_adapter, "");
    for (size_t number = 0; number < spec.own_modules.size(); ++number)
        add(spec.own_modules[number].head_adapter,
            "." + spec.blocks.front().variants.at(number).name);
    if (magnitudes.empty()) return {};
    const std::string& weight = spec.tied ? spec.names.embedding : spec.names.head;
    return {{weight + ".weight", std::move(magnitudes)}};
}

Names names_in_layer_projection(const model::ModelSpec& spec) {
    const auto& layers = spec.layer_embeddings;
    if (!layers || !layers->adapter || !layers->adapter->has_magnitude) return {};
    return {{layers->projection + ".weight", {magnitudes_name(layers->projection, "")}}};
}

void set_in_module(const Names& magnitudes_of, size_t module, shard::Zero& zero) {
    if (magnitudes_of.empty()) return;
    std::vector<size_t> units;
    for (size_t unit = 0; unit < zero.num_units(); ++unit)
        if (zero.units()[unit].module() == module) units.push_back(unit);
    Tensors norms;
    for (const size_t unit : units) add_norms(magnitudes_of, unit, zero, norms);
    for (const size_t unit : units) store(norms, unit, zero);
}

}  // namespace

void set_magnitudes(const model::ModelSpec& spec, shard::Zero& zero) {
    for (size_t block = 0; block < spec.blocks.size(); ++block)
        set_in_module(names_in_block(spec, block), model::ModuleIndex::block(block), zero);
    set_in_module(names_in_head(spec), model::ModuleIndex(spec).head, zero);
    set_in_module(names_in_layer_projection(spec), model::ModuleIndex(spec).layer_projection, zero);
}

}  // namespace ringshard::peft
