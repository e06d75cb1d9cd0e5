#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "backends.hpp"
#include "groups.hpp"
#include "ringshard/ops/device_copies.hpp"

namespace ringshard::ops {

constexpr bool has_gpu_kernels = RINGSHARD_HAS_CUDA;

namespace {

// Returns a buffer for the gradient of a frozen weight, which a needed pass computes anyway.
at::Tensor unused_gradient(const at::Tensor& weight) {
    return at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
}

// addend: fp32. LibTorch's sum of two types would make a copy of y that no plan counts.
at::Tensor add_to_wider(const at::Tensor& y, const at::Tensor& addend, const at::Tensor& into) {
    at::Tensor sum = into.defined() ? into : at::empty_like(addend);
    if (!sum.is_same(addend)) sum.copy_(addend);
    ops::add(sum, y);
    return sum;
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
    return backend_of(x).linear(gemms, x, weight, bias);
}

at::Tensor linear_add(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, const at::Tensor& addend, const at::Tensor& into) {
    return backend_of(x).linear_add(gemms, x, weight, bias, addend, into);
}

at::Tensor add_into(at::Tensor y, const at::Tensor& addend, const at::Tensor& into) {
    if (y.scalar_type() != addend.scalar_type()) return add_to_wider(y, addend, into);
    if (!into.defined()) return y.add_(addend);
    at::Tensor sum = into;
    return at::add_out(sum, y, addend);
}

bool products_add(const at::Tensor& tensor) { return has_gpu_kernels && uses_gpu_kernels(tensor); }

at::Tensor linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                 const at::Tensor& weight) {
    return backend_of(dy).linear_backward_input(gemms, dy, weight);
}

void add_linear(const Gemms& gemms, const at::Tensor& y, const at::Tensor& x,
                const at::Tensor& weight) {
    backend_of(x).add_linear(gemms, y, x, weight);
}

void add_linear_backward_input(const Gemms& gemms, const at::Tensor& dx, const at::Tensor& dy,
                               const at::Tensor& weight) {
    backend_of(dy).add_linear_backward_input(gemms, dx, dy, weight);
}

void add_weight_gradient(const Gemms& gemms, const at::Tensor& d_weight, const at::Tensor& dy,
                         const at::Tensor& x, bool begins) {
    if (!d_weight.defined()) return;
    backend_of(dy).add_weight_gradient(gemms, d_weight, dy, x, begins);
}

void add_bias_gradient(const at::Tensor& d_bias, const at::Tensor& dy) {
    if (!d_bias.defined()) return;
    backend_of(dy).add_bias_gradient(d_bias, dy);
}

at::Tensor round_to_fp8(const at::Tensor& x, Fp8Format format, Fp8Scales scales,
                        const DelayedScale& delayed) {
    return backend_of(x).round_to_fp8(x, format, scales, delayed);
}

at::Tensor fp8_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, Fp8Scales scales, const DelayedScale& delayed) {
    return backend_of(x).fp8_linear(gemms, x, weight, bias, scales, delayed);
}

at::Tensor fp8_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                     const at::Tensor& weight, Fp8Format format, Fp8Scales scales,
                                     const DelayedScale& delayed) {
    return backend_of(dy).fp8_linear_backward_input(gemms, dy, weight, format, scales, delayed);
}

at::Tensor grouped_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weights,
                          const std::vector<int64_t>& counts) {
    return backend_of(x).grouped_linear(gemms, x, weights, counts);
}

at::Tensor grouped_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                         const at::Tensor& weights,
                                         const std::vector<int64_t>& counts) {
    return backend_of(dy).grouped_linear_backward_input(gemms, dy, weights, counts);
}

void add_grouped_weight_gradient(const Gemms& gemms, const at::Tensor& d_weights,
                                 const at::Tensor& dy, const at::Tensor& x,
                                 const std::vector<int64_t>& counts, bool begins) {
    if (!d_weights.defined()) return;
    backend_of(dy).add_grouped_weight_gradient(gemms, d_weights, dy, x, counts, begins);
}

void add_group_biases(const at::Tensor& y, const at::Tensor& biases, const at::Tensor& factors,
                      const std::vector<int64_t>& counts) {
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor bias = biases.select(0, group);
        const at::Tensor rows = y.narrow(0, begin, count);
        rows.add_(factors.defined() ? factors.narrow(0, begin, count) * bias : bias);
    });
}

void add_group_bias_gradient(const at::Tensor& d_biases, const at::Tensor& dy,
                             const at::Tensor& factors, const std::vector<int64_t>& counts) {
    if (!d_biases.defined()) return;
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        const at::Tensor rows = dy.narrow(0, begin, count);
        add_bias_gradient(d_biases.select(0, group),
                          factors.defined() ? rows * factors.narrow(0, begin, count) : rows);
    });
}

ExpertRows rows_by_expert(const at::Tensor& experts, int64_t num_experts, int64_t planned_experts) {
    return backend_of(experts).rows_by_expert(experts, num_experts, planned_experts);
}

std::vector<int64_t> counts_on_host(const at::Tensor& counts,
                                    const std::vector<int64_t>& expected) {
    return backend_of(counts).counts_on_host(counts, expected);
}

ArrivedRows arrived_rows(const at::Tensor& counts, const std::vector<int64_t>& expected) {
    return backend_of(counts).arrived_rows(counts, expected);
}

at::Tensor take_rows(const at::Tensor& x, const at::Tensor& places) {
    return backend_of(x).take_rows(x, places);
}

at::Tensor sum_of_experts(const at::Tensor& rows, const at::Tensor& places) {
    return backend_of(rows).sum_of_experts(rows, places);
}

RmsNormed rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon) {
    return backend_of(x).rms_norm(x, weight, epsilon);
}

RmsNormed add_rms_norm(const at::Tensor& branch, double factor, const at::Tensor& x,
                       const NormWeight& weight, double epsilon) {
    return backend_of(x).add_rms_norm(branch, factor, x, weight, epsilon);
}

at::Tensor rms_norm_again(const at::Tensor& x, const NormWeight& weight,
                          const at::Tensor& inverse_rms) {
    return backend_of(x).rms_norm_again(x, weight, inverse_rms);
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const NormWeight& weight, const at::Tensor& dx, const at::Tensor& d_weight,
                       bool makes_normed) {
    if (!d_weight.defined())
        return rms_norm_backward(dy, x, inverse_rms, weight, dx, unused_gradient(weight.values),
                                 makes_normed);
    backend_of(x).rms_norm_backward(dy, x, inverse_rms, weight, dx, d_weight, makes_normed);
}

HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const NormWeight& weight,
                          double epsilon) {
    return backend_of(rows).head_norm(rows, heads, weight, epsilon);
}

void head_norm_backward(const at::Tensor& d_rows, HeadRange heads, const HeadsBeforeNorm& before,
                        const NormWeight& weight, const at::Tensor& d_weight) {
    if (!d_weight.defined())
        return head_norm_backward(d_rows, heads, before, weight, unused_gradient(weight.values));
    backend_of(d_rows).head_norm_backward(d_rows, heads, before, weight, d_weight);
}

RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                          double scale) {
    return backend_of(positions).make_rope_table(positions, inverse_frequencies, scale);
}

void rope(const at::Tensor& heads, int64_t num_heads, const RopeTable& table, Turn turn) {
    backend_of(heads).rope(heads, num_heads, table, turn);
}

void merge_attention(const SeenKeys& seen, const SeenKeys& more) {
    backend_of(seen.out).merge_attention(seen, more);
}

at::Tensor swiglu(const at::Tensor& gate_up) { return backend_of(gate_up).swiglu(gate_up); }

void swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up, bool makes_product) {
    backend_of(gate_up).swiglu_backward(d_product, gate_up, makes_product);
}

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table) {
    return backend_of(table).embedding(tokens, table);
}

void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& d_table,
                        std::optional<int64_t> left_out) {
    backend_of(dy).embedding_backward(dy, tokens, d_table, left_out);
}

void cross_entropy(const at::Tensor& logits, const Targets& targets, double gradient_scale,
                   const LossForm& form, const at::Tensor& token_stats) {
    backend_of(logits).cross_entropy(logits, targets, gradient_scale, form, token_stats);
}

void cross_entropy_value(const at::Tensor& logits, const Targets& targets, const LossForm& form,
                         const at::Tensor& token_stats) {
    backend_of(logits).cross_entropy_value(logits, targets, form, token_stats);
}

at::Tensor sum_of_tokens(const at::Tensor& token_stats) {
    return backend_of(token_stats).sum_of_tokens(token_stats);
}

TokenSums read_sums(const double* sum_of_tokens, int64_t num_targets) {
    return {.loss = sum_of_tokens[0],
            .entropy = sum_of_tokens[1],
            .num_correct = static_cast<int64_t>(sum_of_tokens[2]),
            .num_targets = num_targets};
}

TokenSums add_up(const at::Tensor& token_stats) {
    return read_sums(on_host(sum_of_tokens(token_stats)).const_data_ptr<double>(),
                     token_stats.size(0));
}

at::Tensor sum_of_squares(const at::Tensor& flat) { return backend_of(flat).sum_of_squares(flat); }

void cast(const at::Tensor& into, const at::Tensor& from) { backend_of(into).cast(into, from); }

void add(const at::Tensor& into, const at::Tensor& from) { backend_of(into).add(into, from); }

void update(const UpdateBuffers& buffers, const UpdateRule& rule) {
    backend_of(buffers.weights).update(buffers, rule);
}

void coded_update(const CodedUpdateBuffers& buffers, const UpdateRule& rule) {
    backend_of(buffers.weights).coded_update(buffers, rule);
}

void schedule_free(const ScheduleFreeBuffers& buffers, const ScheduleFreeStep& step) {
    backend_of(buffers.weights).schedule_free(buffers, step);
}

void dequantize_nf4(const at::Tensor& into, const Nf4Matrix& from) {
    backend_of(into).dequantize_nf4(into, from);
}

void dequantize_int8(const at::Tensor& into, const Int8Matrix& from) {
    backend_of(into).dequantize_int8(into, from);
}

at::Tensor causal_conv(const at::Tensor& x, const CausalConv& conv) {
    return backend_of(x).causal_conv(x, conv);
}

at::Tensor causal_conv_backward(const at::Tensor& dy, const at::Tensor& x, const CausalConv& conv,
                                const at::Tensor& dx, const at::Tensor& d_weight,
                                const at::Tensor& d_bias) {
    return backend_of(x).causal_conv_backward(dy, x, conv, dx, d_weight, d_bias);
}

at::Tensor invert_unit_triangles(const at::Tensor& below_diagonal) {
    return backend_of(below_diagonal).invert_unit_triangles(below_diagonal);
}

Walk delta_walk(const WalkSteps& steps) { return backend_of(steps.values).delta_walk(steps); }

StateWalk state_walk(const StateSteps& steps) { return backend_of(steps.added).state_walk(steps); }

}  // namespace ringshard::ops
