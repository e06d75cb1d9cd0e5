#include "ringshard/model/quantize.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>

#include "model_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

std::optional<Failure> quantize_frozen(ModelSpec& spec, shard::Codec form) {
    const char* const setting = form == shard::Codec::int8 ? "load_in_8bit" : "load_in_4bit";
    if (spec.blocks.front().matrices == MatrixForm::turned)
        return Failure{ExitCode::settings,
                       format_text("{}: {} stores the transposes of its matrices, and quantised "
                                   "they are not served; leave {} out",
                                   setting, spec.architecture, setting)};
    const ModelParts parts(spec);
    for (size_t block = 0; block < parts.blocks.size(); ++block)
        for (const shard::ParameterGroup& group : parts.modules[ModuleIndex::block(block)].groups())
            if (group.placement.is_trained && group.is_quantisable())
                return Failure{
                    ExitCode::settings,
                    format_text(
                        "lora_modules_to_save: {} is quantised ({}) and cannot be trained whole; "
                        "name it in lora_target_modules, or leave {} out",
                        group.tensors.front().name, setting, setting)};
    spec.frozen_form = form;
    return std::nullopt;
}

namespace {

// Numbers of a tensor in a chunk of a shard.
struct Place {
    int64_t first;  // element of the tensor
    at::Tensor numbers;
};
using Places = std::multimap<std::string, Place>;  // by the name of the tensor

void copy_into(const Places& places, const shard::TensorPiece& matrix, const at::Tensor& numbers) {
    const auto [begin, end] = places.equal_range(matrix.tensor->spec.name);
    for (auto place = begin; place != end; ++place) {
        const auto& [first, into] = place->second;
        const shard::Range both = shard::intersect({first, first + into.numel()},
                                                   {matrix.first, matrix.first + matrix.size});
        if (both.size() > 0)
            into.narrow(0, both.begin - first, both.size())
                .copy_(numbers.narrow(0, both.begin - matrix.first, both.size()));
    }
}

// Dequantises the matrices of a gathered unit one by one.
void copy_matrices(const shard::FlatUnit& unit, const at::Tensor& flat, const Places& places) {
    const std::vector<shard::TensorPiece> matrices = unit.pieces({0, unit.section_size()});
    for (size_t number = 0; number < matrices.size(); ++number) {
        const at::Tensor numbers =
            at::empty({matrices[number].size}, flat.options().dtype(at::kFloat));
        unit.codes()->dequantize(numbers, flat, number);
        copy_into(places, matrices[number], numbers);
    }
}

// Calls work(places) with the frozen weights of a module in this rank's shards, and stores them.
template <class Work>
void change_frozen(const shard::Zero& zero, size_t module, Work work) {
    Places places;
    std::vector<std::pair<size_t, at::Tensor>> loaded;  // chunks
    std::vector<shard::FlatStore*> stores;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        if (zero.units()[unit].module() != module || zero.is_trained(unit)) continue;
        const auto [chunks, shards] = zero.weights_at_rest_of(unit);
        for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
            loaded.emplace_back(chunk, shards.load(chunk, shard::Access::read));
            stores.push_back(&shards);
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(chunks[chunk].range))
                places.emplace(
                    piece.tensor->spec.name,
                    Place{piece.first, loaded.back().second.narrow(0, piece.in_range, piece.size)});
        }
    }
    work(places);
    for (size_t i = 0; i < loaded.size(); ++i) stores[i]->store(loaded[i].first, loaded[i].second);
}

}  // namespace

void copy_dequantized(shard::Zero& quantized, const shard::Zero& dense) {
    for (size_t unit = 0; unit < quantized.num_units(); ++unit) {
        const shard::FlatUnit& from = quantized.units()[unit];
        if (from.codes() == nullptr) continue;
        quantized.begin_pass({unit});
        const at::Tensor flat = quantized.weights(unit);
        change_frozen(dense, from.module(),
                      [&](const Places& places) { copy_matrices(from, flat, places); });
        quantized.release(unit, shard::Zero::NextUse::none);
    }
}

}  // namespace ringshard::model
