#include "ringshard/peft/merge_adapters.hpp"

#include <ATen/ops/mm.h>

#include <algorithm>
#include <map>
#include <set>

#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/ops/row_norms.hpp"

namespace ringshard::peft {

namespace {

struct Factors {
    at::Tensor a;  // [rank, in]
    at::Tensor b;  // [out, rank]
    double scaling;
    at::Tensor magnitude{};              // [out], of DoRA
    std::optional<at::Tensor> factor{};  // [out], of the rows: the magnitude by the norm
};

// Those of the transpose of the matrix.
Factors transposed(const Factors& factors) {
    return {factors.b.t().contiguous(), factors.a.t().contiguous(), factors.scaling};
}

// By the name of the weight: of the equal parts of it that lie one behind the other, one for each
// expert of a tensor of all experts.
using FactorsByName = std::map<std::string, std::vector<Factors>>;

// Expert e's part of B [out, rank x experts]: [out, rank].
at::Tensor b_of_expert(const at::Tensor& b, int64_t experts, int64_t expert) {
    return b.view({b.size(0), b.size(1) / experts, experts}).select(2, expert).contiguous();
}

// The factors of the matrices of each expert. The rows of B are those of gate and up.
void add_experts(FactorsByName& factors, const model::BlockSpec& block, const std::string& prefix,
                 bool is_gate_up, const Factors& of_all) {
    const model::ExpertsSpec& spec = *block.experts();
    const int64_t rank = of_all.a.size(0) / spec.count;
    for (int64_t expert = 0; expert < spec.count; ++expert) {
        const at::Tensor a = of_all.a.narrow(0, expert * rank, rank);
        const at::Tensor b = b_of_expert(of_all.b, spec.count, expert);
        if (spec.tensors == model::ExpertTensors::turned) {
            factors[concat(prefix, is_gate_up ? model::experts_gate_up : model::experts_down)]
                .push_back(transposed({a, b, of_all.scaling}));
            continue;
        }
        const auto add = [&](const std::string& layer, int64_t first, int64_t rows) {
            factors[format_text("{}{}.{}.{}.weight", prefix, spec.experts, expert, layer)] = {
                {a, b.narrow(0, first, rows), of_all.scaling}};
        };
        if (is_gate_up) {
            add(spec.gate, 0, spec.intermediate);
            add(spec.up, spec.intermediate, spec.intermediate);
        } else {
            add(spec.down, 0, block.width);
        }
    }
}

using Tensors = std::map<std::string, at::Tensor>;

void add_adapter_tensors(Tensors& tensors, const shard::FlatUnit& unit, const at::Tensor& flat) {
    for (const shard::PlacedTensor& tensor : unit.tensors())
        if (tensor.is_made_by_run)
            tensors[tensor.spec.name] =
                flat.narrow(0, tensor.offset, tensor.size).view(tensor.spec.shape).clone();
}

// The adapters of a block by the name of the weight that they belong to. Sets in `added` the
// vectors that are added to biases, by the names of these.
FactorsByName factors_of(const model::BlockSpec& block, const std::string& prefix,
                         const Tensors& tensors, Tensors& added) {
    FactorsByName factors;
    const std::map<std::string, model::AdapterSpec>& layers = block.adapters.front().layers;
    for (const auto& [layer, adapter] : layers) {
        if (block.experts() && (layer == model::experts_gate_up || layer == model::experts_down)) {
            const std::string name = prefix + model::expert_adapter_prefix(layers, layer);
            add_experts(factors, block, prefix, layer == model::experts_gate_up,
                        {tensors.at(name + ".lora_A.weight"), tensors.at(name + ".lora_B.weight"),
                         adapter.scaling});
            continue;
        }
        const std::string name = concat(prefix, layer);
        const bool is_router = block.experts() && layer == model::router_name(*block.experts());
        const std::string weight = is_router ? concat(prefix, block.experts()->router) : name;
        Factors of_layer{tensors.at(name + ".lora_A.weight"), tensors.at(name + ".lora_B.weight"),
                         adapter.scaling};
        if (block.matrices == model::MatrixForm::turned) of_layer = transposed(of_layer);
        if (adapter.has_magnitude) of_layer.magnitude = tensors.at(name + ".lora_magnitude_vector");
        factors[weight + ".weight"] = {std::move(of_layer)};
        if (adapter.has_bias)
            added[weight + ".bias"] = tensors.at(name + ".lora_B.bias") * adapter.scaling;
    }
    return factors;
}

// Finds the factors of the rows of weights with magnitudes. Gathers the unit that holds them.
void find_row_factors(FactorsByName& factors, size_t unit, shard::Zero& zero) {
    if (std::ranges::none_of(factors, [](const auto& of_weight) {
            return of_weight.second.front().magnitude.defined();
        }))
        return;
    zero.begin_pass({unit});
    const at::Tensor flat = zero.weights(unit);
    for (const shard::PlacedTensor& tensor : zero.units()[unit].tensors()) {
        const auto found = factors.find(tensor.spec.name);
        if (found == factors.end() || !found->second.front().magnitude.defined()) continue;
        auto& [a, b, scaling, magnitude, factor] = found->second.front();
        const at::Tensor weight =
            flat.narrow(0, tensor.offset, tensor.size).view(tensor.spec.shape);
        factor = magnitude / ops::row_norms(weight, {b, a, scaling});
    }
    zero.release(unit, shard::Zero::NextUse::none);
}

// Elements [first, first + count) of factor x (W + scaling x B A), some rows at a time.
void merge(const Factors& factors, int64_t first, const at::Tensor& into) {
    constexpr int64_t elements_at_once = int64_t{1} << 22;
    const int64_t width = factors.a.size(1);
    const int64_t rows_at_once = std::max<int64_t>(1, elements_at_once / width);
    const int64_t end = first + into.numel();
    for (int64_t row = first / width; row * width < end; row += rows_at_once) {
        const int64_t rows = std::min(rows_at_once, factors.b.size(0) - row);
        const at::Tensor product = at::mm(factors.b.narrow(0, row, rows), factors.a).view({-1});
        const shard::Range of_rows{row * width, (row + rows) * width};
        const shard::Range both = intersect(of_rows, {first, end});
        const auto cut = [&](const at::Tensor& all) {
            return all.narrow(0, both.begin - of_rows.begin, both.size());
        };
        const at::Tensor merged = into.narrow(0, both.begin - first, both.size());
        merged.add_(cut(product), factors.scaling);
        if (factors.factor)
            merged.mul_(cut(factors.factor->narrow(0, row, rows).repeat_interleave(width)));
    }
}

// The same of a tensor in equal parts, one behind the other.
void merge(const std::vector<Factors>& parts, int64_t first, const at::Tensor& into) {
    const int64_t size = parts.front().b.size(0) * parts.front().a.size(1);
    const shard::Range all{first, first + into.numel()};
    for (int64_t part = first / size; part * size < all.end; ++part) {
        const shard::Range here = intersect(all, {part * size, (part + 1) * size});
        merge(parts[static_cast<size_t>(part)], here.begin - part * size,
              into.narrow(0, here.begin - first, here.size()));
    }
}

void merge_unit(const FactorsByName& factors, const Tensors& added, size_t unit,
                shard::Zero& zero) {
    const auto [chunks, shards] = zero.weights_at_rest_of(unit);
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(chunks[chunk].range)) {
            const at::Tensor into = numbers.narrow(0, piece.in_range, piece.size);
            if (const auto found = factors.find(piece.tensor->spec.name); found != factors.end())
                merge(found->second, piece.first, into);
            if (const auto found = added.find(piece.tensor->spec.name); found != added.end())
                into.add_(found->second.narrow(0, piece.first, piece.size));
        }
        shards.store(chunk, numbers);
    }
}

// Overwrites the rows of a matrix that train.
void replace_rows(const std::string& module, const std::vector<int64_t>& rows,
                  const Tensors& adapters, size_t unit, shard::Zero& zero) {
    const at::Tensor& values = adapters.at(module + ".token_adapter.trainable_tokens_delta");
    const int64_t width = values.size(1);
    const auto [chunks, shards] = zero.weights_at_rest_of(unit);
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(chunks[chunk].range)) {
            if (piece.tensor->spec.name != module + ".weight") continue;
            for (size_t number = 0; number < rows.size(); ++number) {
                const shard::Range row{rows[number] * width, (rows[number] + 1) * width};
                const shard::Range both = intersect(row, {piece.first, piece.first + piece.size});
                if (both.size() == 0) continue;
                numbers.narrow(0, piece.in_range + both.begin - piece.first, both.size())
                    .copy_(values[static_cast<int64_t>(number)].narrow(0, both.begin - row.begin,
                                                                       both.size()));
            }
        }
        shards.store(chunk, numbers);
    }
}

// The units of a module, and the tensors of their adapters, which are gathered.
struct ModuleContent {
    std::vector<size_t> frozen;
    std::vector<size_t> trained;
    Tensors adapters;
};
ModuleContent content_of(size_t module, shard::Zero& zero) {
    ModuleContent content;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        if (zero.units()[unit].module() != module) continue;
        if (!zero.is_trained(unit)) {
            content.frozen.push_back(unit);
            continue;
        }
        content.trained.push_back(unit);
        zero.begin_pass({unit});
        add_adapter_tensors(content.adapters, zero.units()[unit], zero.weights(unit));
        zero.release(unit, shard::Zero::NextUse::none);
    }
    return content;
}

// Row t of the embedding becomes W[t] + s (B A[:, t]), or a trained one.
void merge_embedding(const model::ModelSpec& spec, shard::Zero& zero) {
    const std::string& name = spec.names.embedding;
    const ModuleContent content = content_of(model::ModuleIndex(spec).embedding, zero);
    FactorsByName factors;
    const std::map<std::string, model::AdapterSpec>& layers = spec.adapters.front().layers;
    if (const auto found = layers.find(name); found != layers.end())
        factors[name + ".weight"] = {
            {content.adapters.at(name + ".lora_embedding_B").t().contiguous(),
             content.adapters.at(name + ".lora_embedding_A").t().contiguous(),
             found->second.scaling}};
    for (const size_t unit : content.frozen) {
        merge_unit(factors, {}, unit, zero);
        if (!spec.trained_rows.embedding.empty())
            replace_rows(name, spec.trained_rows.embedding, content.adapters, unit, zero);
    }
}

// Merges the adapter of a linear layer that no block has.
void merge_layer(const std::string& name, const model::AdapterSpec& adapter,
                 const ModuleContent& content, shard::Zero& zero) {
    Factors factors{content.adapters.at(name + ".lora_A.weight"),
                    content.adapters.at(name + ".lora_B.weight"), adapter.scaling};
    if (adapter.has_magnitude)
        factors.magnitude = content.adapters.at(name + ".lora_magnitude_vector");
    FactorsByName by_name{{name + ".weight", {std::move(factors)}}};
    Tensors added;
    if (adapter.has_bias)
        added[name + ".bias"] = content.adapters.at(name + ".lora_B.bias") * adapter.scaling;
    for (const std::vector<size_t>& units : {content.frozen, content.trained})
        for (const size_t unit : units) {
            find_row_factors(by_name, unit, zero);
            merge_unit(by_name, added, unit, zero);
        }
}

void merge_head(const model::ModelSpec& spec, shard::Zero& zero) {
    RINGSHARD_CHECK(!spec.tied, "the embedding would change with the head");
    const std::string& name = spec.names.head;
    const ModuleContent content = content_of(model::ModuleIndex(spec).head, zero);
    if (!spec.trained_rows.head.empty())
        for (const size_t unit : content.frozen)
            replace_rows(name, spec.trained_rows.head, content.adapters, unit, zero);
    const std::map<std::string, model::AdapterSpec>& layers = spec.adapters.front().layers;
    if (const auto found = layers.find(name); found != layers.end())
        merge_layer(name, found->second, content, zero);
}

}  // namespace

void merge_adapters(const model::ModelSpec& spec, shard::Zero& zero) {
    RINGSHARD_CHECK(zero.compute_type() == at::kFloat, "weights are merged in fp32");
    for (size_t block = 0; block < spec.blocks.size(); ++block) {
        if (spec.blocks[block].adapters.front().layers.empty()) continue;
        const ModuleContent content = content_of(model::ModuleIndex::block(block), zero);
        Tensors added;
        FactorsByName factors = factors_of(spec.blocks[block], model::block_prefix(spec, block),
                                           content.adapters, added);
        for (const size_t unit : content.frozen) {
            find_row_factors(factors, unit, zero);
            merge_unit(factors, added, unit, zero);
        }
        if (added.empty()) continue;
        for (const size_t unit : content.trained)  // bias lora_only, all
            merge_unit({}, added, unit, zero);
    }
    const std::map<std::string, model::AdapterSpec>& outside = spec.adapters.front().layers;
    if (outside.contains(spec.names.embedding) || !spec.trained_rows.embedding.empty())
        merge_embedding(spec, zero);
    if (outside.contains(spec.names.head) || !spec.trained_rows.head.empty())
        merge_head(spec, zero);
    if (!spec.layer_embeddings) return;
    const std::string& projection = spec.layer_embeddings->projection;
    if (const auto found = outside.find(projection); found != outside.end())
        merge_layer(projection, found->second,
                    content_of(model::ModuleIndex(spec).layer_projection, zero), zero);
}

std::optional<Failure> refuse_merge(const model::ModelSpec& spec) {
    std::set<std::string> names;
    for (const shard::UnitLayout& module : model::modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups())
            for (const shard::TensorSpec& tensor : group.tensors) names.insert(tensor.name);
    for (const auto& [layer, adapter] : spec.layers_of(0))
        if (adapter.has_bias && !names.contains(layer + ".bias"))
            return Failure{
                ExitCode::settings,
                format_text("merge: the adapter of {} has a bias (lora_bias), and the layer has "
                            "none that it could be added to; export the adapter without merge",
                            layer)};
    return std::nullopt;
}

}  // namespace ringshard::peft
