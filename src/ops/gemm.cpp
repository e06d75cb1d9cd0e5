#include "ringshard/ops/gemm.hpp"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "gemm_backends.hpp"

namespace ringshard::ops {

std::string_view to_text(GemmPass pass) {
    switch (pass) {
        case GemmPass::forward: return "forward";
        case GemmPass::input_gradient: return "input_gradient";
        case GemmPass::weight_gradient: return "weight_gradient";
    }
    return {};
}

GemmKind kind_of(GemmPass pass, const at::Tensor& weight, const at::Tensor& rows) {
    return {pass, rows.scalar_type(), weight.size(0), weight.size(1)};
}

void GemmBackend::write_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {
    c.zero_();
    add_product(c, a, b);
}

void GemmBackend::accumulate(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {
    if (c.scalar_type() == at::kFloat) return add_product(c, a, b);
    const at::Tensor product = at::empty(c.sizes(), c.options());
    multiply(product, a, b, {});
    c.add_(product);
}

Expected<Gemms> Gemms::open(Processor processor) {
    // For LibTorch's products on a GPU, which by default may add up parts of a product in bf16: the
    // kernels that Ringshard chooses sum in fp32 and round once.
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    std::vector<std::unique_ptr<GemmBackend>> backends;
    auto onednn = open_onednn_gemm();
    if (!onednn) return onednn.failure();
    backends.push_back(std::move(onednn).value());
    backends.push_back(make_mkl_gemm());
    backends.push_back(make_aten_gemm());
    std::erase(backends, nullptr);
    if (!processor.multiplies_bf16())
        for (auto& backend : backends) backend = gemm_through_fp32(std::move(backend));
    backends.push_back(make_native_gemm(*kernels_here(0)));
    return Gemms(std::move(backends), std::move(processor));
}

Gemms::Gemms(std::vector<std::unique_ptr<GemmBackend>> backends, Processor processor)
    : backends_(std::move(backends)), processor_(std::move(processor)) {}

GemmBackend* Gemms::find(std::string_view name) const {
    const auto found =
        std::ranges::find_if(backends_, [&](const auto& each) { return each->name() == name; });
    return found == backends_.end() ? nullptr : found->get();
}

std::vector<GemmBackend*> Gemms::candidates(const GemmKind& kind) const {
    std::vector<GemmBackend*> serving;
    for (const auto& backend : backends_)
        if (backend->serves(kind.type)) serving.push_back(backend.get());
    const bool aten_rounds_sums = kind.pass == GemmPass::weight_gradient &&
                                  kind.type == at::kBFloat16 && processor_.multiplies_bf16();
    if (aten_rounds_sums && serving.size() > 1)
        std::erase_if(serving, [](const GemmBackend* each) { return each->name() == "aten"; });
    return serving;
}

namespace {

// The names in the order in which a rule prefers them.
using Order = std::array<std::string_view, 4>;
constexpr Order native_first{"native", "onednn", "mkl", "aten"};
constexpr Order mkl_first{"mkl", "onednn", "aten", "native"};
constexpr Order aten_first{"aten", "onednn", "mkl", "native"};

// Measured on Intel with AMX and without, and on AMD with AVX-512: tests/bench/results.
Order order_of(const GemmKind& kind, const Processor& processor) {
    const bool has_avx512 = processor.has("avx512f");
    if (kind.type == at::kFloat)
        return has_avx512 && processor.vendor != "GenuineIntel" ? native_first : mkl_first;
    if (has_avx512) return native_first;
    const bool is_mkl = !processor.multiplies_bf16() || kind.pass == GemmPass::weight_gradient;
    return is_mkl ? mkl_first : aten_first;
}

}  // namespace

GemmBackend& Gemms::by_rule(const GemmKind& kind) const {
    const std::vector<GemmBackend*> among = candidates(kind);
    for (const std::string_view name : order_of(kind, processor_))
        for (GemmBackend* backend : among)
            if (backend->name() == name) return *backend;
    RINGSHARD_CHECK(false, "no backend multiplies matrices of {}", at::toString(kind.type));
}

GemmBackend& Gemms::backend_of(const GemmKind& kind) const {
    const auto found = chosen_.find(kind);
    if (found != chosen_.end()) return *found->second;
    GemmBackend& backend = for_all_ != nullptr ? *for_all_ : by_rule(kind);
    chosen_.emplace(kind, &backend);
    return backend;
}

void Gemms::choose_for_all(GemmBackend& backend) {
    chosen_.clear();
    for_all_ = &backend;
}

}  // namespace ringshard::ops
