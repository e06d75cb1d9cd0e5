#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/headeronly/version.h>

#include "gemm_backends.hpp"
#include "ringshard/ops/flat.hpp"

namespace ringshard::ops {

namespace {

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
        // Tensor::add_() would make a copy of the product in fp32.
        ops::add(c, at::mm(a, b));
    }

    int64_t workspace_bytes(const GemmKind& kind, const GemmSizes& sizes) const override {
        if (kind.type == at::kFloat || kind.pass != GemmPass::weight_gradient) return 0;
        return sizes.rows * sizes.columns * static_cast<int64_t>(c10::elementSize(kind.type));
    }
};

}  // namespace

std::unique_ptr<GemmBackend> make_aten_gemm() { return std::make_unique<AtenGemm>(); }

}  // namespace ringshard::ops
