#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/model/block_spec.hpp"
#include "ringshard/model/delayed_scaling.hpp"
#include "ringshard/model/fp8_products.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/shard/flat_unit.hpp"

namespace ringshard::model {

// One or several linear layers of the same input, side by side: one product.
struct ProjectionSpec {
    struct Layer {
        std::string name;  // of its tensors, without ".weight" and ".bias"
        int64_t out;
        std::string adapter{};  // PEFT's name of the layer, if another: that of its adapter

        const std::string& adapter_name() const { return adapter.empty() ? name : adapter; }
    };
    std::vector<Layer> layers;
    int64_t in;
    bool has_bias = false;
    bool has_biases_apart = false;              // each layer's bias is a parameter
    std::vector<NamedAdapter> adapters{};       // of other layers too
    shard::Codec form = shard::Codec::compute;  // of the weights
    bool is_never_quantised = false;
    MatrixForm matrix = MatrixForm::of_outputs;  // turned: of one layer
};

// The tokens of each of the adapters that train together, which follow one another: those of
// adapter i are [bounds[i], bounds[i + 1]); empty: all tokens are of the model alone. The only
// adapter of a run has all tokens, with the fillers.
struct AdapterRows {
    std::vector<int64_t> bounds{};

    std::vector<int64_t> bounds_of(size_t num_adapters, int64_t tokens) const {
        return num_adapters == 1 ? std::vector<int64_t>{0, tokens} : bounds;
    }

    AdapterRows of_tokens(int64_t begin, int64_t length) const {
        AdapterRows part;
        for (const int64_t bound : bounds)
            part.bounds.push_back(std::clamp<int64_t>(bound - begin, 0, length));
        return part;
    }
};

// The norms of the rows of weights with magnitudes, by their layer and adapter: found once for
// all chunks of tokens that share them.
using RowNorms = std::map<uint64_t, at::Tensor>;

// The products in FP8 of a block, for some of its tokens.
struct Fp8Context {
    Fp8Options options;
    const DelayedScaling* delayed = nullptr;  // null: no scale follows from earlier steps
    size_t block = 0;
    int64_t counted = 0;                         // the first tokens, whose magnitudes are recorded
    std::optional<shard::ParameterId> weight{};  // of the projection

    Fp8Context of_tokens(int64_t begin, int64_t length) const {
        Fp8Context part = *this;
        part.counted = std::clamp<int64_t>(counted - begin, 0, length);
        return part;
    }
};

// The run and the tokens of a projection, as far as it needs them.
struct ProjectionContext {
    const ops::Gemms& gemms;
    at::Tensor dropout_keys{};  // [t] int64; undefined: nothing is dropped
    RowNorms* norms = nullptr;  // nullptr: not shared
    AdapterRows rows{};
    // Of the input or output of one product. LibTorch's and cuBLAS's are not proven from 2^31 on.
    int64_t most_elements = int64_t{1} << 30;
    int64_t most_dequantised = int64_t{1} << 25;  // weights of experts in codes at a time
    std::optional<Fp8Context> fp8{};              // if products with weights are in FP8

    // Of some of the tokens.
    ProjectionContext of_tokens(int64_t begin, int64_t length) const {
        return {gemms,
                dropout_keys.defined() ? dropout_keys.narrow(0, begin, length) : at::Tensor(),
                norms,
                rows.of_tokens(begin, length),
                most_elements,
                most_dequantised,
                fp8 ? std::optional(fp8->of_tokens(begin, length)) : std::nullopt};
    }
    ProjectionContext of_weight(shard::ParameterId weight) const {
        ProjectionContext one = *this;
        one.fp8->weight = weight;
        return one;
    }
    ProjectionContext in_bf16() const {
        ProjectionContext other = *this;
        other.fp8.reset();
        return other;
    }
    // Of some of the tokens, all of one adapter.
    ProjectionContext of_one(int64_t begin, int64_t length) const {
        ProjectionContext one = of_tokens(begin, length);
        one.rows = {};
        return one;
    }
};

}  // namespace ringshard::model
