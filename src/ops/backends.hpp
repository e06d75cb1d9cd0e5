#pragma once

#include "ringshard/ops/backend.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/flat.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/merge_attention.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/rope.hpp"
#include "ringshard/ops/swiglu.hpp"

// Every operation exists twice, with the same arguments, in programs that are built with CUDA.
// Which of the two answers a call is said by where its tensors are.
namespace ringshard::ops::cpu {

decltype(ops::linear) linear;
decltype(ops::linear_backward_input) linear_backward_input;
decltype(ops::add_weight_gradient) add_weight_gradient;
decltype(ops::add_bias_gradient) add_bias_gradient;
decltype(ops::rms_norm) rms_norm;
decltype(ops::rms_norm_again) rms_norm_again;
decltype(ops::rms_norm_backward) rms_norm_backward;
decltype(ops::head_norm) head_norm;
decltype(ops::head_norm_backward) head_norm_backward;
decltype(ops::make_rope_table) make_rope_table;
decltype(ops::rope) rope;
decltype(ops::merge_attention) merge_attention;
decltype(ops::swiglu) swiglu;
decltype(ops::swiglu_backward) swiglu_backward;
decltype(ops::embedding) embedding;
decltype(ops::embedding_backward) embedding_backward;
decltype(ops::cross_entropy) cross_entropy;
decltype(ops::cross_entropy_value) cross_entropy_value;
decltype(ops::add_up) add_up;
decltype(ops::sum_of_squares) sum_of_squares;
decltype(ops::cast) cast;
decltype(ops::add) add;
decltype(ops::adamw) adamw;
decltype(ops::lion) lion;

}  // namespace ringshard::ops::cpu

// On tensors of a GPU; and of the host too, slowly, where the same kernels are walked through
// thread by thread, so that they can be tried without a GPU.
namespace ringshard::ops::cuda {

decltype(ops::linear) linear;
decltype(ops::linear_backward_input) linear_backward_input;
decltype(ops::add_weight_gradient) add_weight_gradient;
decltype(ops::add_bias_gradient) add_bias_gradient;
decltype(ops::rms_norm) rms_norm;
decltype(ops::rms_norm_again) rms_norm_again;
decltype(ops::rms_norm_backward) rms_norm_backward;
decltype(ops::head_norm) head_norm;
decltype(ops::head_norm_backward) head_norm_backward;
decltype(ops::make_rope_table) make_rope_table;
decltype(ops::rope) rope;
decltype(ops::merge_attention) merge_attention;
decltype(ops::swiglu) swiglu;
decltype(ops::swiglu_backward) swiglu_backward;
decltype(ops::embedding) embedding;
decltype(ops::embedding_backward) embedding_backward;
decltype(ops::cross_entropy) cross_entropy;
decltype(ops::cross_entropy_value) cross_entropy_value;
decltype(ops::add_up) add_up;
decltype(ops::sum_of_squares) sum_of_squares;
decltype(ops::cast) cast;
decltype(ops::add) add;
decltype(ops::adamw) adamw;
decltype(ops::lion) lion;

}  // namespace ringshard::ops::cuda
