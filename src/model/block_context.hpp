#pragma once

#include "parts/mlp_context.hpp"
#include "positions.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/attention/sequence_delta.hpp"
#include "ringshard/config/activation_policies.hpp"
#include "ringshard/model/layer_cache.hpp"
#include "ringshard/ops/gemm.hpp"
#include "unit_set.hpp"

namespace ringshard::model {

// Tokens that the MLP works on at a time.
struct Turn {
    int64_t begin;
    int64_t length;
    int64_t most;  // tokens in this turn of one of the ranks that share experts
};

// The batch and the run, as far as a block needs them.
struct BlockContext {
    const attention::SequenceAttention& attention;
    const attention::SequenceDelta& delta;
    const attention::Plan& plan;
    const Positions& positions;
    const ops::Gemms& gemms;
    config::ActivationPolicy policy;
    int64_t mlp_chunk;                  // tokens
    const LayerCache* cache = nullptr;  // where a text is generated
    at::Tensor dropout_keys{};          // [t], of a batch that is trained on with dropout
    RouterContext routers{};
    ExpertGroup experts{};  // all of its ranks take as many chunks
    ExpertSlices slices{};
    AdapterRows rows{};
    int64_t most_product_elements = int64_t{1} << 30;
    std::optional<Fp8Context> fp8{};  // if products with weights are in FP8
    BranchType branch_type{};

    ProjectionContext projections() const {
        return {gemms, dropout_keys, nullptr, rows, most_product_elements, fp8};
    }
    MlpContext mlp() const { return {projections(), routers, experts, true, false, branch_type}; }
    // Returns the context of some tokens of the batch, of which nothing is kept.
    MlpContext mlp(const Turn& turn, RowNorms& norms) const {
        const auto& [begin, length, most] = turn;
        return {
            {gemms, dropout_keys.defined() ? dropout_keys.narrow(0, begin, length) : at::Tensor(),
             &norms, rows.of_tokens(begin, length), most_product_elements,
             fp8 ? std::optional(fp8->of_tokens(begin, length)) : std::nullopt},
            routers.of_tokens(begin, length),
            {experts.ranks, most, experts.least_rows},
            false,
            false,
            branch_type};
    }
};

}  // namespace ringshard::model
