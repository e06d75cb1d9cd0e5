#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <numeric>

#include "backends.hpp"
#include "gemm_backends.hpp"
#include "groups.hpp"

namespace ringshard::ops::meta {

namespace {

at::Tensor fp32(at::IntArrayRef sizes, const at::Tensor& like) {
    return at::empty(sizes, like.options().dtype(at::kFloat));
}

// Returns the library of a product, with the memory that it keeps; null for plans of a GPU, which
// have no libraries of the host.
const GemmBackend* library_of(const Gemms& gemms, const GemmKind& kind) {
    if (gemms.backends().empty()) return nullptr;
    GemmBackend& library = gemms.backend_of(kind);
    keep_product_memory(library);
    return &library;
}

// Returns a tensor of the size that a library's product takes as workspace.
at::Tensor workspace_of(const Gemms& gemms, const GemmKind& kind, const GemmSizes& sizes,
                        const at::Tensor& like) {
    const GemmBackend* const library = library_of(gemms, kind);
    const int64_t bytes = library == nullptr ? 0 : library->workspace_bytes(kind, sizes);
    return at::empty({bytes}, like.options().dtype(at::kByte));
}

// A GPU's library adds to a matrix without a tensor of its size.
bool accumulates(const Gemms& gemms, const GemmKind& kind, at::ScalarType type) {
    const GemmBackend* const library = library_of(gemms, kind);
    return library == nullptr || library->accumulates(type);
}

// A row of sums for each thread.
at::Tensor sums_of_threads(int64_t width, const at::Tensor& like) {
    return fp32({at::get_num_threads(), width}, like);
}

}  // namespace

at::Tensor linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
    at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
    if (x.size(0) == 0) return y;
    workspace_of(gemms, kind_of(GemmPass::forward, weight, x),
                 {x.size(0), weight.size(0), weight.size(1), bias.defined()}, x);
    return y;
}

at::Tensor linear_add(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, const at::Tensor& addend, const at::Tensor& into) {
    return add_into(meta::linear(gemms, x, weight, bias), addend, into);
}

at::Tensor linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                 const at::Tensor& weight) {
    at::Tensor dx = at::empty({dy.size(0), weight.size(1)}, dy.options());
    if (dy.size(0) == 0) return dx;
    workspace_of(gemms, kind_of(GemmPass::input_gradient, weight, dy),
                 {dy.size(0), weight.size(1), weight.size(0)}, dy);
    return dx;
}

void add_linear(const Gemms& gemms, const at::Tensor&, const at::Tensor& x,
                const at::Tensor& weight) {
    if (!accumulates(gemms, kind_of(GemmPass::forward, weight, x), x.scalar_type()))
        meta::linear(gemms, x, weight, {});
}

void add_linear_backward_input(const Gemms& gemms, const at::Tensor&, const at::Tensor& dy,
                               const at::Tensor& weight) {
    if (!accumulates(gemms, kind_of(GemmPass::input_gradient, weight, dy), dy.scalar_type()))
        meta::linear_backward_input(gemms, dy, weight);
}

void add_weight_gradient(const Gemms& gemms, const at::Tensor& d_weight, const at::Tensor& dy,
                         const at::Tensor& x, bool) {
    if (x.size(0) == 0) return;
    workspace_of(gemms, kind_of(GemmPass::weight_gradient, d_weight, x),
                 {d_weight.size(0), d_weight.size(1), dy.size(0)}, x);
}

void add_bias_gradient(const at::Tensor& d_bias, const at::Tensor& dy) {
    sums_of_threads(dy.size(1), d_bias);
}

at::Tensor round_to_fp8(const at::Tensor& x, Fp8Format, Fp8Scales, const DelayedScale&) {
    return at::empty_like(x);
}

at::Tensor fp8_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, Fp8Scales, const DelayedScale&) {
    return meta::linear(gemms, at::empty_like(x), at::empty_like(weight), bias);
}

at::Tensor fp8_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                     const at::Tensor& weight, Fp8Format, Fp8Scales,
                                     const DelayedScale&) {
    return meta::linear_backward_input(gemms, at::empty_like(dy), at::empty_like(weight));
}

at::Tensor grouped_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weights,
                          const std::vector<int64_t>& counts) {
    at::Tensor y = at::empty({x.size(0), weights.size(1)}, x.options());
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        meta::linear(gemms, x.narrow(0, begin, count), weights.select(0, group), {});
    });
    return y;
}

at::Tensor grouped_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                         const at::Tensor& weights,
                                         const std::vector<int64_t>& counts) {
    at::Tensor dx = at::empty({dy.size(0), weights.size(2)}, dy.options());
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        meta::linear_backward_input(gemms, dy.narrow(0, begin, count), weights.select(0, group));
    });
    return dx;
}

void add_grouped_weight_gradient(const Gemms& gemms, const at::Tensor& d_weights,
                                 const at::Tensor& dy, const at::Tensor& x,
                                 const std::vector<int64_t>& counts, bool) {
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        meta::add_weight_gradient(gemms, d_weights.select(0, group), dy.narrow(0, begin, count),
                                  x.narrow(0, begin, count));
    });
}

ExpertRows rows_by_expert(const at::Tensor& experts, int64_t num_experts, int64_t planned_experts) {
    const int64_t choices = experts.numel();
    const int64_t among = planned_experts == 0 ? num_experts : planned_experts;
    std::vector<int64_t> counts(static_cast<size_t>(num_experts));
    for (int64_t expert = 0; expert < among; ++expert)
        counts[static_cast<size_t>(expert)] =
            choices * (expert + 1) / among - choices * expert / among;
    return {at::empty({choices}, experts.options()), at::empty({choices}, experts.options()),
            at::empty_like(experts), std::move(counts)};
}

// All ranks are alike.
std::vector<int64_t> counts_on_host(const at::Tensor&, const std::vector<int64_t>& expected) {
    return expected;
}

ArrivedRows arrived_rows(const at::Tensor& counts, const std::vector<int64_t>& expected) {
    std::vector<int64_t> arrived;
    for (int64_t rank = 0; rank < counts.size(0); ++rank)
        arrived.insert(arrived.end(), expected.begin(), expected.begin() + counts.size(1));
    const int64_t rows = std::accumulate(arrived.begin(), arrived.end(), int64_t{0});
    return {std::move(arrived), at::empty({rows}, counts.options()),
            at::empty({rows}, counts.options())};
}

at::Tensor take_rows(const at::Tensor& x, const at::Tensor& places) {
    std::vector<int64_t> shape = x.sizes().vec();
    shape.front() = places.size(0);
    return at::empty(shape, x.options());
}

at::Tensor sum_of_experts(const at::Tensor& rows, const at::Tensor& places) {
    return at::empty({places.size(0), rows.size(1)}, rows.options());
}

RmsNormed rms_norm(const at::Tensor& x, const NormWeight& weight, double) {
    return {at::empty(x.sizes(), weight.values.options()), fp32({x.size(0)}, x)};
}

RmsNormed add_rms_norm(const at::Tensor&, double, const at::Tensor& x, const NormWeight&, double) {
    return {at::empty_like(x), fp32({x.size(0)}, x)};
}

at::Tensor rms_norm_again(const at::Tensor& x, const NormWeight& weight, const at::Tensor&) {
    return at::empty(x.sizes(), weight.values.options());
}

void rms_norm_backward(const at::Tensor&, const at::Tensor& x, const at::Tensor&, const NormWeight&,
                       const at::Tensor&, const at::Tensor&, bool) {
    sums_of_threads(x.size(1), x);
}

HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const NormWeight& weight,
                          double) {
    return {at::empty({rows.size(0), heads.count, weight.values.size(0)}, rows.options()),
            fp32({rows.size(0), heads.count}, rows)};
}

void head_norm_backward(const at::Tensor& d_rows, HeadRange, const HeadsBeforeNorm&,
                        const NormWeight& weight, const at::Tensor&) {
    sums_of_threads(weight.values.size(0), d_rows);
}

RopeTable make_rope_table(const at::Tensor& positions, const at::Tensor& inverse_frequencies,
                          double) {
    const auto angles = [&] {
        return fp32({positions.numel(), inverse_frequencies.numel()}, inverse_frequencies);
    };
    return {angles(), angles()};
}

void rope(const at::Tensor&, int64_t, const RopeTable&, Turn) {}

void merge_attention(const SeenKeys&, const SeenKeys& more) {
    const at::Tensor out = more.out.to(at::kFloat).contiguous();
    const at::Tensor lse = more.lse.contiguous();
}

at::Tensor swiglu(const at::Tensor& gate_up) {
    return at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
}

void swiglu_backward(const at::Tensor&, const at::Tensor&, bool) {}

at::Tensor embedding(const at::Tensor& tokens, const at::Tensor& table) {
    return at::empty({tokens.size(0), table.size(1)}, table.options());
}

void embedding_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        std::optional<int64_t>) {}

void cross_entropy(const at::Tensor&, const Targets&, double, const LossForm&, const at::Tensor&) {}

void cross_entropy_value(const at::Tensor&, const Targets&, const LossForm&, const at::Tensor&) {}

at::Tensor sum_of_tokens(const at::Tensor& token_stats) {
    return at::empty({token_stats.size(1)}, token_stats.options().dtype(at::kDouble));
}

at::Tensor sum_of_squares(const at::Tensor& flat) {
    return at::empty({}, flat.options().dtype(at::kDouble));
}

void cast(const at::Tensor&, const at::Tensor&) {}

void add(const at::Tensor&, const at::Tensor&) {}

void update(const UpdateBuffers&, const UpdateRule&) {}

void coded_update(const CodedUpdateBuffers&, const UpdateRule&) {}

void schedule_free(const ScheduleFreeBuffers&, const ScheduleFreeStep&) {}

void dequantize_nf4(const at::Tensor&, const Nf4Matrix&) {}

void dequantize_int8(const at::Tensor&, const Int8Matrix&) {}

at::Tensor causal_conv(const at::Tensor& x, const CausalConv&) {
    return at::empty(x.sizes(), x.options());
}

at::Tensor causal_conv_backward(const at::Tensor& dy, const at::Tensor&, const CausalConv& conv,
                                const at::Tensor&, const at::Tensor&, const at::Tensor&) {
    return at::empty(conv.before.sizes(), dy.options());
}

at::Tensor invert_unit_triangles(const at::Tensor& below_diagonal) {
    return at::empty(below_diagonal.sizes(), below_diagonal.options());
}

Walk delta_walk(const WalkSteps& steps) {
    const auto sizes = steps.first.sizes();
    const auto options = steps.first.options();
    return {at::empty({steps.values.size(0), sizes[1], sizes[2], sizes[3]}, options),
            at::empty(steps.values.sizes(), options), at::empty(sizes, options)};
}

StateWalk state_walk(const StateSteps& steps) {
    return {at::empty(steps.added.sizes(), steps.added.options()),
            at::empty(steps.first.sizes(), steps.first.options())};
}

}  // namespace ringshard::ops::meta
