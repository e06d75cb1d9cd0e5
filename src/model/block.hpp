#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/rope.hpp"

// One transformer block, forward and backward. Letters: t tokens of this rank, w width, i
// intermediate.
namespace ringshard::model {

// The parameters of a block in its unit.
struct BlockParameters {
    BlockParameters(shard::UnitLayout& unit, const ModelSpec& spec);

    shard::ParameterId qkv;
    shard::ParameterId out;
    shard::ParameterId gate_up;
    shard::ParameterId down;
    shard::ParameterId attention_norm;
    shard::ParameterId mlp_norm;
    std::optional<shard::ParameterId> qkv_bias;
    std::optional<shard::ParameterId> out_bias;
    std::optional<shard::ParameterId> query_norm;
    std::optional<shard::ParameterId> key_norm;
};

// Views of a block's flat buffer: its weights, or the places where its gradients are added up
// (fp32).
struct BlockViews {
    BlockViews(const shard::UnitTensors& unit, const BlockParameters& parameters);

    at::Tensor qkv;             // [qkv_width, w]
    at::Tensor qkv_bias;        // [qkv_width], or undefined
    at::Tensor out;             // [w, h d]
    at::Tensor gate_up;         // [2i, w]
    at::Tensor down;            // [w, i]
    at::Tensor attention_norm;  // [w]
    at::Tensor mlp_norm;        // [w]
    at::Tensor out_bias;        // [w], or undefined
    at::Tensor query_norm;      // [d], of every query head by itself, or undefined
    at::Tensor key_norm;        // [d], or undefined
};

// What the backward pass needs, in the order in which the forward pass makes it. Whatever is not
// kept is made again from what stands before it.
struct BlockActivations {
    at::Tensor input;  // [t, w]
    at::Tensor attention_inverse_rms;
    at::Tensor qkv;  // [t, qkv_width], normed by heads where the model does, turned to positions
    ops::HeadsBeforeNorm queries;
    ops::HeadsBeforeNorm keys;
    attention::SequenceAttention::Result attention;
    at::Tensor middle;  // [t, w]: input + attention
    at::Tensor mlp_inverse_rms;
    at::Tensor gate_up;  // [t, 2i]
};
std::array<at::Tensor*, 12> tensors_of(BlockActivations& activations);

// What all blocks of a batch share.
struct BlockContext {
    const ModelSpec& spec;
    const attention::SequenceAttention& attention;
    const attention::Plan& plan;
    const ops::RopeTable& rope;
    const ops::Gemms& gemms;
    config::ActivationPolicy policy;
    int64_t mlp_chunk;  // tokens
};

// Fills `activations`, whose input is given, and returns the output [t, w]; keeps what the policy
// says. Collective over the sequence group.
at::Tensor block_forward(const BlockContext& context, const BlockViews& weights,
                         BlockActivations& activations);

// Adds to the gradients of the weights, and turns `gradient`, that of the output, into that of the
// input. `activations` are used up. Collective over the sequence group.
void block_backward(const BlockContext& context, const BlockViews& weights,
                    const BlockViews& gradients, const at::Tensor& gradient,
                    BlockActivations&& activations);

}  // namespace ringshard::model
