#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/headeronly/version.h>

#include <algorithm>

#include "gemm_backends.hpp"

namespace ringshard::ops {

namespace {

// add_() converts what it adds to fp32, all of it at once: here the rows of 256 KiB in fp32.
int64_t converted_rows(int64_t rows, int64_t columns) {
    return std::min(rows, std::max<int64_t>(1, (int64_t{1} << 16) / columns));
}

// LibTorch's operators: for bf16 the oneDNN inside it, or what else it was built with.
class AtenGemm final : public GemmBackend {
public:
    std::string_view name() const override { return "aten"; }
    std::string version() const override { return TORCH_VERSION; }
    bool serves(at::ScalarType) const override { return true; }

    void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& bias) override {
        at::Tensor into = c;
        if (bias.defined())
            at::addmm_out(into, bias, a, b);
        else
            at::mm_out(into, a, b);
    }

    // No operator adds a product of bf16 to fp32, so this rounds it to bf16 on the way.
    void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        if (a.scalar_type() == at::kFloat) {
            c.addmm_(a, b);
            return;
        }
        const at::Tensor product = at::mm(a, b);
        const int64_t step = converted_rows(c.size(0), c.size(1));
        for (int64_t row = 0; row < c.size(0); row += step) {
            const int64_t count = std::min(step, c.size(0) - row);
            c.narrow(0, row, count).add_(product.narrow(0, row, count));
        }
    }

    int64_t workspace_bytes(const GemmKind& kind, const GemmSizes& sizes) const override {
        if (kind.type == at::kFloat || kind.pass != GemmPass::weight_gradient) return 0;
        const auto element = static_cast<int64_t>(c10::elementSize(kind.type));
        return sizes.rows * sizes.columns * element + converted_rows(sizes.rows, sizes.columns) *
                                                          sizes.columns *
                                                          static_cast<int64_t>(sizeof(float));
    }
};

}  // namespace

std::unique_ptr<GemmBackend> make_aten_gemm() { return std::make_unique<AtenGemm>(); }

}  // namespace ringshard::ops
