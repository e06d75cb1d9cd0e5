#pragma once

#include "delta_chunks.hpp"
#include "ringshard/ops/backend.hpp"
#include "ringshard/ops/causal_conv.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/flat.hpp"
#include "ringshard/ops/fp8.hpp"
#include "ringshard/ops/grouped_linear.hpp"
#include "ringshard/ops/int8.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/merge_attention.hpp"
#include "ringshard/ops/nf4.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/rope.hpp"
#include "ringshard/ops/routing.hpp"
#include "ringshard/ops/swiglu.hpp"
#include "ringshard/ops/updates.hpp"

// The operations that every backend has, with the arguments of ops.
// clang-format off
#define RINGSHARD_FOR_OPERATIONS(each) \
    each(linear) each(linear_add) each(linear_backward_input) each(add_weight_gradient) \
    each(add_linear) each(add_linear_backward_input) each(add_bias_gradient) \
    each(round_to_fp8) each(fp8_linear) each(fp8_linear_backward_input) \
    each(grouped_linear) each(grouped_linear_backward_input) each(add_grouped_weight_gradient) \
    each(rows_by_expert) each(counts_on_host) each(arrived_rows) each(take_rows) \
    each(sum_of_experts) \
    each(rms_norm) each(add_rms_norm) each(rms_norm_again) each(rms_norm_backward) \
    each(head_norm) each(head_norm_backward) \
    each(make_rope_table) each(rope) \
    each(merge_attention) \
    each(swiglu) each(swiglu_backward) \
    each(embedding) each(embedding_backward) \
    each(cross_entropy) each(cross_entropy_value) each(sum_of_tokens) \
    each(sum_of_squares) each(cast) each(add) \
    each(update) each(coded_update) each(schedule_free) \
    each(dequantize_nf4) each(dequantize_int8) \
    each(causal_conv) each(causal_conv_backward) \
    each(invert_unit_triangles) each(delta_walk) each(state_walk)
// clang-format on

#define RINGSHARD_DECLARE(operation) decltype(ops::operation) operation;

// The operations on tensors of the host.
namespace ringshard::ops::cpu {
RINGSHARD_FOR_OPERATIONS(RINGSHARD_DECLARE)
}

// The operations on tensors of a GPU, in builds with CUDA; tests also run the same kernels on the
// host, thread by thread and slowly, without a GPU.
namespace ringshard::ops::cuda {
RINGSHARD_FOR_OPERATIONS(RINGSHARD_DECLARE)
}

// The operations on meta tensors, which have sizes and no data: they allocate as on the CPU, and
// compute nothing.
namespace ringshard::ops::meta {
RINGSHARD_FOR_OPERATIONS(RINGSHARD_DECLARE)
}

#undef RINGSHARD_DECLARE

namespace ringshard::ops {

#define RINGSHARD_MEMBER(operation) decltype(ops::operation)* operation;
struct Backend {
    RINGSHARD_FOR_OPERATIONS(RINGSHARD_MEMBER)
};
#undef RINGSHARD_MEMBER

// The backend that works where the tensor is.
const Backend& backend_of(const at::Tensor& tensor);

}  // namespace ringshard::ops
