#pragma once

#include "parts/mlp_context.hpp"
#include "positions.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/attention/sequence_delta.hpp"
#include "ringshard/config/activation_policies.hpp"
#include "ringshard/model/layer_cache.hpp"
#include "ringshard/ops/gemm.hpp"

namespace ringshard::model {

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
    // The ranks that share experts (null: all are here), and the most tokens that one of them has:
    // all take as many chunks.
    comm::Communicator* experts = nullptr;
    int64_t longest_of_experts = 0;
    AdapterRows rows{};
    int64_t most_product_elements = int64_t{1} << 30;
    std::optional<ops::Fp8Format> fp8_gradients{};  // if products with weights are in FP8

    ProjectionContext projections() const {
        return {gemms, dropout_keys, nullptr, rows, most_product_elements, fp8_gradients};
    }
    MlpContext mlp() const { return {projections(), routers, experts}; }
    // Of some tokens of the batch.
    MlpContext mlp(int64_t begin, int64_t length, RowNorms& norms) const {
        return {
            {gemms, dropout_keys.defined() ? dropout_keys.narrow(0, begin, length) : at::Tensor(),
             &norms, rows.of_tokens(begin, length), most_product_elements, fp8_gradients},
            routers.of_tokens(begin, length),
            experts};
    }
};

}  // namespace ringshard::model
