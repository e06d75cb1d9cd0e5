#include "gemm_backends.hpp"
#include "onednn_matmul.hpp"

namespace ringshard::ops {

namespace {

StridedMatrix matrix_of(const at::Tensor& tensor) {
    return {tensor.data_ptr(),
            {tensor.size(0), tensor.size(1)},
            {tensor.stride(0), tensor.stride(1)},
            tensor.scalar_type() == at::kBFloat16};
}

class OnednnGemm final : public GemmBackend {
public:
    explicit OnednnGemm(std::unique_ptr<OnednnMatmul> matmul)
        : matmul_(std::move(matmul)), has_bf16_(matmul_->has_bf16()) {}

    std::string_view name() const override { return "onednn"; }
    std::string version() const override { return matmul_->version(); }
    bool serves(at::ScalarType type) const override { return type == at::kFloat || has_bf16_; }

    void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& bias) override {
        matmul_->multiply(matrix_of(c), matrix_of(a), matrix_of(b),
                          bias.defined() ? bias.data_ptr() : nullptr);
    }

    void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        matmul_->add_product(matrix_of(c), matrix_of(a), matrix_of(b));
    }

    int64_t workspace_bytes(const GemmKind&, const GemmSizes&) const override { return 0; }

private:
    std::unique_ptr<OnednnMatmul> matmul_;
    bool has_bf16_;
};

}  // namespace

Expected<std::unique_ptr<GemmBackend>> open_onednn_gemm() {
    auto matmul = OnednnMatmul::open();
    if (!matmul) return matmul.failure();
    return std::unique_ptr<GemmBackend>(std::make_unique<OnednnGemm>(std::move(matmul).value()));
}

}  // namespace ringshard::ops
