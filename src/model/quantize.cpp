#include "ringshard/model/quantize.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>

#include "model_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

std::optional<Failure> quantize_frozen(ModelSpec& spec, shard::Codec form) {
    if (spec.num_experts() > 0)
        return Failure{ExitCode::settings,
                       "load_in_4bit: is not served for models with experts; leave it out"};
    const ModelParts parts(spec);
    for (size_t block = 0; block < parts.blocks.size(); ++block)
        for (const shard::ParameterGroup& group : parts.modules[ModuleIndex::block(block)].groups())
            if (group.placement.is_trained && !group.is_made_by_run &&
                group.tensors.front().shape.size() == 2)
                return Failure{
                    ExitCode::settings,
                    format_text(
                        "lora_modules_to_save: {} lies in four bits (load_in_4bit) and cannot be "
                        "trained whole; name it in lora_target_modules, or leave load_in_4bit out",
                        group.tensors.front().name)};
    spec.frozen_form = form;
    return std::nullopt;
}

namespace {

// Matrices of a unit in four bits, as numbers, by name.
std::map<std::string, at::Tensor> matrices_of(const shard::FlatUnit& unit, const at::Tensor& flat) {
    std::map<std::string, at::Tensor> matrices;
    for (size_t number = 0; number < unit.tensors().size(); ++number) {
        const shard::PlacedTensor& tensor = unit.tensors()[number];
        const at::Tensor matrix = at::empty({tensor.size}, flat.options().dtype(at::kFloat));
        ops::dequantize_nf4(matrix, unit.nf4()->matrix(flat, number));
        matrices[tensor.spec.name] = matrix;
    }
    return matrices;
}

void copy_into(const std::map<std::string, at::Tensor>& matrices, const shard::Zero& dense,
               size_t unit) {
    const auto [chunks, shards] = dense.weights_at_rest_of(unit);
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        for (const shard::TensorPiece& piece : dense.units()[unit].pieces(chunks[chunk].range))
            if (const auto found = matrices.find(piece.tensor->spec.name); found != matrices.end())
                numbers.narrow(0, piece.in_range, piece.size)
                    .copy_(found->second.narrow(0, piece.first, piece.size));
        shards.store(chunk, numbers);
    }
}

}  // namespace

void copy_dequantized(shard::Zero& quantized, const shard::Zero& dense) {
    for (size_t unit = 0; unit < quantized.num_units(); ++unit) {
        const shard::FlatUnit& from = quantized.units()[unit];
        if (from.nf4() == nullptr) continue;
        quantized.begin_pass({unit});
        const auto matrices = matrices_of(from, quantized.weights(unit));
        quantized.release(unit, shard::Zero::NextUse::none);
        for (size_t into = 0; into < dense.num_units(); ++into)
            if (dense.units()[into].module() == from.module() && !dense.is_trained(into))
                copy_into(matrices, dense, into);
    }
}

}  // namespace ringshard::model
