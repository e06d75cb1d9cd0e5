#pragma once

#include <optional>
#include <vector>

#include "mixer.hpp"
#include "norm.hpp"
#include "ringshard/attention/sequence_latents.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::model {

// Causal attention within documents to keys and values that are made of one latent of each token.
// Of a head the last elements rotate; those of the keys are a part of the latent as it is kept.
class LatentAttention : public Mixer {
public:
    LatentAttention(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                    const LatentSpec& spec);

    const Projection* first_product() const override { return nullptr; }
    const Projection* last_product() const override { return &out_; }
    std::vector<const Projection*> projections() const override;

    // Makes queries [t, h key_dim] and latents of x [t, w]: normed, turned to their positions.
    void project(const Pass& pass, const at::Tensor& x) const override;
    void mix(const Pass& pass) const override;
    at::Tensor mixed(const Pass& pass) const override;
    void backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const override;

    void add_costs(StageCosts& costs, bool makes_output_again) const override;
    void make_cache(LayerCache& cache, int64_t capacity, int64_t texts,
                    const at::TensorOptions& options) const override;
    std::set<std::string> operators(const BlockContext& context, at::ScalarType type,
                                    at::Device device) const override;
    bool can_be_recorded(const BlockContext& context) const override;

private:
    // Queries that come from a latent of their own.
    struct QueryLatent {
        QueryLatent(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                    const LatentSpec& spec);
        Norm norm;
        Projection out;
        SavedSlot rows;  // [t, query rank]
        SavedSlot inverse_rms;
    };

    bool has_gates() const { return spec_.gates != HeadGates::none; }
    // Saves the gates of heads, which are the last of these rows, and returns the others.
    at::Tensor split_gates(const at::Tensor& rows, Saved& saved) const;
    attention::SequenceLatents engine(const BlockContext& context) const;
    attention::LatentExpansion expansion(const Pass& pass) const;
    attention::LatentExpansion expansion(const BackwardPass& pass) const;
    at::Tensor expand(const Pass& pass, const at::Tensor& latents) const;
    at::Tensor expand_backward(const BackwardPass& pass, const at::Tensor& d_rows,
                               const at::Tensor& latents) const;
    // Turns the last elements of heads of rows, in place.
    void rotate(const BlockContext& context, const at::Tensor& rows, int64_t heads,
                ops::Turn turn) const;
    // Turn the gradients of queries and latents into those of the rows as they were projected.
    at::Tensor queries_backward(const BackwardPass& pass, const at::Tensor& d_queries) const;
    at::Tensor latents_backward(const BackwardPass& pass, const at::Tensor& d_latents) const;

    LatentSpec spec_;
    attention::LatentSizes sizes_;
    Projection query_in_;
    std::optional<QueryLatent> query_latent_;
    Projection latent_in_;
    Norm latent_norm_;
    Projection expand_;
    Projection out_;
    SavedSlot latent_rows_;  // [t, rank + rotated], as they were projected
    SavedSlot latent_inverse_rms_;
    SavedSlot latents_;  // [t, rank + rotated]
    SavedSlot seen_;     // [t, h value_dim], the attention's result
    SavedSlot lse_;
    SavedSlot gates_;  // [t, h]
};

}  // namespace ringshard::model
