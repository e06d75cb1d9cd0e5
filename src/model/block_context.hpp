#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "parts/projection_spec.hpp"
#include "positions.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/config/activation_policies.hpp"
#include "ringshard/model/layer_cache.hpp"
#include "saved.hpp"
#include "unit_set.hpp"

namespace ringshard::model {

// The sums that the routers of a pass share, for one block and some of its tokens.
struct RouterContext {
    // [experts]: a forward pass adds its choices (int64) and probabilities (fp64). Undefined: not
    // counted.
    at::Tensor choices{};
    at::Tensor probabilities{};
    // [experts] int64: the choices without the corrections of the probabilities, if there are some.
    std::optional<at::Tensor> uncorrected{};
    int64_t num_counted = 0;  // the first tokens; the others only fill the batch up
    // [experts] fp32: the gradient of the loss that balances the experts, by the probabilities of a
    // counted token. Undefined: none.
    at::Tensor d_probability{};

    RouterContext of_tokens(int64_t begin, int64_t length) const {
        return {choices, probabilities, uncorrected,
                std::clamp<int64_t>(num_counted - begin, 0, length), d_probability};
    }
};

// The ranks that share experts.
struct ExpertGroup {
    comm::Communicator* ranks = nullptr;  // null: all experts are here
    int64_t most_tokens = 0;              // of one of the ranks
    int64_t least_rows = 1;               // of an expert in a chunk that travels, in the mean
};

// The ranks that share a sequence, of which mixers make what brings them each other's tokens.
struct SequenceGroup {
    comm::Communicator& ring;
    comm::Communicator& ulysses;
    attention::ContextParallelOptions options{};
    c10::DeviceType device = c10::DeviceType::CPU;  // or that which meta tensors stand for
};

// The keys and values of a group of blocks, [t, 2 key heads x d], as the block that makes them has
// turned them; and the gradient by the other blocks, fp32, before they were turned.
struct KeysOfGroup {
    std::optional<at::Tensor> rows{};
    std::optional<at::Tensor> gradient{};
};

// What a block gets of the embeddings of layers, [t, width], and where its gradient goes.
struct LayerRows {
    at::Tensor rows;
    std::optional<at::Tensor> gradient{};  // nothing: no part needs it

    LayerRows of_tokens(int64_t begin, int64_t length) const {
        LayerRows part{rows.narrow(0, begin, length)};
        if (gradient) part.gradient = gradient->narrow(0, begin, length);
        return part;
    }
    LayerRows of_block(size_t block, int64_t width) const {
        const int64_t first = static_cast<int64_t>(block) * width;
        LayerRows part{rows.narrow(1, first, width)};
        if (gradient) part.gradient = gradient->narrow(1, first, width);
        return part;
    }
};

// Rows that blocks of a pass share, from its forward to its backward half.
struct SharedRows {
    std::map<size_t, KeysOfGroup> keys{};
    std::optional<LayerRows> of_layers{};  // of all blocks, side by side
    at::Tensor input{};                    // of the first block, of which these are made
};

// The compute type, if the residual stream has another one.
using BranchType = std::optional<at::ScalarType>;

// The batch and the run, as far as a block needs them.
struct BlockContext {
    SequenceGroup sequence;
    std::span<const attention::Mask> masks;
    std::span<const attention::Plan> plans;  // of the masks
    const Positions& positions;
    ProjectionContext projections;
    config::ActivationPolicy policy;
    int64_t mlp_chunk;                  // tokens
    const LayerCache* cache = nullptr;  // where a text is generated
    RouterContext routers{};
    ExpertGroup experts{};  // all of its ranks take as many chunks
    ExpertSlices slices{};
    BranchType branch_type{};
    SharedRows* shared = nullptr;  // where blocks share rows
    std::optional<LayerRows> layer_rows{};

    const attention::Plan& plan_of(const attention::Mask& mask) const {
        return plans[static_cast<size_t>(std::ranges::find(masks, mask) - masks.begin())];
    }
    // most: tokens of the same chunk on one of the ranks that share experts.
    BlockContext of_tokens(int64_t begin, int64_t length, int64_t most, RowNorms& norms) const {
        BlockContext part{.sequence = sequence,
                          .masks = masks,
                          .plans = plans,
                          .positions = positions,
                          .projections = projections.of_tokens(begin, length),
                          .policy = policy,
                          .mlp_chunk = mlp_chunk,
                          .cache = cache,
                          .routers = routers.of_tokens(begin, length),
                          .experts = {experts.ranks, most, experts.least_rows},
                          .slices = slices,
                          .branch_type = branch_type,
                          .shared = shared};
        if (layer_rows) part.layer_rows = layer_rows->of_tokens(begin, length);
        part.projections.norms = &norms;
        return part;
    }
};

// The work of a pass on a block, or on some of its tokens.
struct Pass {
    const BlockContext& context;
    const shard::UnitTensors& weights;
    Saved& saved;
};

struct BackwardPass : Pass {
    const shard::UnitTensors& gradients;
    at::Tensor d_result;  // of the result of the layer, in the residual stream
    at::Tensor gradient;  // of the rows that the layer reads there: each layer adds to it
};

// Returns rows of the residual stream in the type of the products.
inline at::Tensor in_type(const BranchType& type, const at::Tensor& rows) {
    return type ? rows.to(*type) : rows;
}

}  // namespace ringshard::model
