#include <ATen/ops/zeros.h>

#include "backends.hpp"

namespace ringshard::ops {

constexpr bool has_gpu_kernels = RINGSHARD_HAS_CUDA;

namespace {

// Of a frozen weight whose gradient falls out of a pass that is needed anyway.
at::Tensor unused_gradient(const at::Tensor& weight) {
    return at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
}

}  // namespace

TokenSums& TokenSums::operator+=(const TokenSums& other) {
    loss += other.loss;
    entropy += other.entropy;
    num_correct += other.num_correct;
    num_targets += other.num_targets;
    return *this;
}

at::Tensor linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(x)) return cuda::linear(gemms, x, weight, bias);
    return cpu::linear(gemms, x, weight, bias);
}

at::Tensor linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                 const at::Tensor& weight) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(dy)) return cuda::linear_backward_input(gemms, dy, weight);
    return cpu::linear_backward_input(gemms, dy, weight);
}

void add_weight_gradient(const Gemms& gemms, const at::Tensor& d_weight, const at::Tensor& dy,
                         const at::Tensor& x) {
    if (!d_weight.defined()) return;
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(dy)) return cuda::add_weight_gradient(gemms, d_weight, dy, x);
    return cpu::add_weight_gradient(gemms, d_weight, dy, x);
}

void add_bias_gradient(const at::Tensor& d_bias, const at::Tensor& dy) {
    if (!d_bias.defined()) return;
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(dy)) return cuda::add_bias_gradient(d_bias, dy);
    return cpu::add_bias_gradient(d_bias, dy);
}

RmsNormed rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(x)) return cuda::rms_norm(x, weight, epsilon);
    return cpu::rms_norm(x, weight, epsilon);
}

at::Tensor rms_norm_again(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& inverse_rms) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(x)) return cuda::rms_norm_again(x, weight, inverse_rms);
    return cpu::rms_norm_again(x, weight, inverse_rms);
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const at::Tensor& weight, const at::Tensor& dx, const at::Tensor& d_weight) {
    if (!d_weight.defined())
        return rms_norm_backward(dy, x, inverse_rms, weight, dx, unused_gradient(weight));
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(x))
            return cuda::rms_norm_backward(dy, x, inverse_rms, weight, dx, d_weight);
    return cpu::rms_norm_backward(dy, x, inverse_rms, weight, dx, d_weight);
}

HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const at::Tensor& weight,
                          double epsilon) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(rows)) return cuda::head_norm(rows, heads, weight, epsilon);
    return cpu::head_norm(rows, heads, weight, epsilon);
}

void head_norm_backward(const at::Tensor& d_rows, HeadRange heads, const HeadsBeforeNorm& before,
                        const at::Tensor& weight, const at::Tensor& d_weight) {
    if (!d_weight.defined())
        return head_norm_backward(d_rows, heads, before, weight, unused_gradient(weight));
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(d_rows))
            return cuda::head_norm_backward(d_rows, heads, before, weight, d_weight);
    return cpu::head_norm_backward(d_rows, heads, before, weight, d_weight);
}

RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                          double scale) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(positions))
            return cuda::make_rope_table(positions, inverse_frequencies, scale);
    return cpu::make_rope_table(positions, inverse_frequencies, scale);
}

void rope(const at::Tensor& heads, int64_t num_heads, const RopeTable& table, Turn turn) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(heads)) return cuda::rope(heads, num_heads, table, turn);
    return cpu::rope(heads, num_heads, table, turn);
}

void merge_attention(const SeenKeys& seen, const SeenKeys& more) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(seen.out)) return cuda::merge_attention(seen, more);
    return cpu::merge_attention(seen, more);
}

at::Tensor swiglu(const at::Tensor& gate_up) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(gate_up)) return cuda::swiglu(gate_up);
    return cpu::swiglu(gate_up);
}

void swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(gate_up)) return cuda::swiglu_backward(d_product, gate_up);
    return cpu::swiglu_backward(d_product, gate_up);
}

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(table)) return cuda::embedding(tokens, table);
    return cpu::embedding(tokens, table);
}

void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& d_table,
                        std::optional<int64_t> left_out) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(dy)) return cuda::embedding_backward(dy, tokens, d_table, left_out);
    return cpu::embedding_backward(dy, tokens, d_table, left_out);
}

void cross_entropy(const at::Tensor& logits, const Targets& targets, double gradient_scale,
                   const LossForm& form, const at::Tensor& of_tokens) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(logits))
            return cuda::cross_entropy(logits, targets, gradient_scale, form, of_tokens);
    return cpu::cross_entropy(logits, targets, gradient_scale, form, of_tokens);
}

void cross_entropy_value(const at::Tensor& logits, const Targets& targets, const LossForm& form,
                         const at::Tensor& of_tokens) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(logits))
            return cuda::cross_entropy_value(logits, targets, form, of_tokens);
    return cpu::cross_entropy_value(logits, targets, form, of_tokens);
}

TokenSums add_up(const at::Tensor& of_tokens) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(of_tokens)) return cuda::add_up(of_tokens);
    return cpu::add_up(of_tokens);
}

at::Tensor sum_of_squares(const at::Tensor& flat) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(flat)) return cuda::sum_of_squares(flat);
    return cpu::sum_of_squares(flat);
}

void cast(const at::Tensor& into, const at::Tensor& from) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(into)) return cuda::cast(into, from);
    return cpu::cast(into, from);
}

void add(const at::Tensor& into, const at::Tensor& from) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(into)) return cuda::add(into, from);
    return cpu::add(into, from);
}

void adamw(const AdamWBuffers& buffers, const AdamWStep& step) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(buffers.weights)) return cuda::adamw(buffers, step);
    return cpu::adamw(buffers, step);
}

void lion(const LionBuffers& buffers, const LionStep& step) {
    if constexpr (has_gpu_kernels)
        if (uses_gpu_kernels(buffers.weights)) return cuda::lion(buffers, step);
    return cpu::lion(buffers, step);
}

}  // namespace ringshard::ops
