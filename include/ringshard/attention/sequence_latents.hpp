#pragma once

#include <algorithm>
#include <functional>

#include "ringshard/attention/sequence_attention.hpp"

namespace ringshard::attention {

// Heads whose keys and values are made of a latent of each token.
struct LatentSizes {
    int64_t heads;  // of queries, and of keys and values
    int64_t key_dim;
    int64_t value_dim;

    // In the terms of SequenceAttention, whose heads have one width.
    HeadCounts as_heads() const { return {heads, heads, std::max(key_dim, value_dim)}; }
};

// Makes keys and values of latents [t, l]. Expanded rows [t, heads (key_dim + value_dim)] are the
// keys of all heads, then their values.
struct LatentExpansion {
    std::function<at::Tensor(const at::Tensor& latents)> forward;
    // Returns the gradient of the latents; adds to those of the weights.
    std::function<at::Tensor(const at::Tensor& d_expanded, const at::Tensor& latents)> backward;
};

// SequenceAttention of keys and values that are made of latents: the latents travel round a ring,
// and each rank expands those that it meets. Ulysses exchanges tokens for heads.
class SequenceLatents {
public:
    SequenceLatents(const LatentSizes& sizes, comm::Communicator& ring, comm::Communicator& ulysses,
                    const ContextParallelOptions& context_parallel, c10::DeviceType planned,
                    const ops::ScoreForm& form);

    // queries [t, h key_dim]; a result [t, h value_dim]. Collective over the sequence group.
    SequenceAttention::Result forward(const at::Tensor& queries, const at::Tensor& latents,
                                      const LatentExpansion& expansion, const Plan& plan) const;
    struct Gradient {
        at::Tensor d_queries;
        at::Tensor d_latents;
    };
    Gradient backward(const at::Tensor& d_out, const at::Tensor& queries, const at::Tensor& latents,
                      const SequenceAttention::Result& result, const LatentExpansion& expansion,
                      const Plan& plan) const;
    // As SequenceAttention::attend_cached().
    at::Tensor attend_cached(const at::Tensor& queries, const at::Tensor& latents,
                             const LatentExpansion& expansion, const Plan& plan,
                             const KeyValueCache& cache) const;
    // Attention between the expanded heads, on one rank.
    const SequenceAttention& attention() const { return attention_; }

private:
    LatentSizes sizes_;
    comm::Communicator& ring_;
    comm::Communicator& ulysses_;
    bool gathers_;
    std::optional<at::ScalarType> exchange_type_;
    c10::DeviceType planned_;
    ops::ScoreForm form_;
    SequenceAttention attention_;
};

}  // namespace ringshard::attention
