#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>

#include "gemm_backends.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/ops/flat.hpp"

// MKL's interface, which LibTorch exports without a header. Row-major is 101, no transposition 111,
// transposition 112; sgemm_ goes by columns.
extern "C" void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n,
                                       int k, float alpha, const uint16_t* a, int lda,
                                       const uint16_t* b, int ldb, float beta, float* c, int ldc);
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace ringshard::ops {

namespace {

// A matrix as BLAS sees it: its rows, or those of its transpose, are contiguous.
struct BlasMatrix {
    explicit BlasMatrix(const at::Tensor& matrix)
        : is_transposed(matrix.stride(1) != 1 && matrix.size(1) != 1),
          leading(narrow<int>(std::max<int64_t>(
              {matrix.stride(is_transposed ? 1 : 0), matrix.size(is_transposed ? 0 : 1), 1}))) {
        RINGSHARD_CHECK(
            matrix.stride(is_transposed ? 0 : 1) == 1 || matrix.size(is_transposed ? 0 : 1) == 1,
            "neither rows nor columns are contiguous");
    }
    bool is_transposed;
    int leading;
};

struct MklSizes {
    MklSizes(const at::Tensor& c, const at::Tensor& a)
        : m(narrow<int>(c.size(0))), n(narrow<int>(c.size(1))), k(narrow<int>(a.size(1))) {}
    int m;
    int n;
    int k;
};

// c = a b + beta c, of fp32. By columns that is c^T = b^T a^T.
void multiply_fp32(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, float beta) {
    const MklSizes sizes(c, a);
    const BlasMatrix of_a(a);
    const BlasMatrix of_b(b);
    const int leading_c = BlasMatrix(c).leading;
    constexpr float one = 1;
    sgemm_(of_b.is_transposed ? "T" : "N", of_a.is_transposed ? "T" : "N", &sizes.n, &sizes.m,
           &sizes.k, &one, b.const_data_ptr<float>(), &of_b.leading, a.const_data_ptr<float>(),
           &of_a.leading, &beta, c.mutable_data_ptr<float>(), &leading_c);
}

void add_bf16_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {
    constexpr int row_major = 101;
    const auto transpose = [](const BlasMatrix& matrix) {
        return matrix.is_transposed ? 112 : 111;
    };
    const MklSizes sizes(c, a);
    const BlasMatrix of_a(a);
    const BlasMatrix of_b(b);
    cblas_gemm_bf16bf16f32(row_major, transpose(of_a), transpose(of_b), sizes.m, sizes.n, sizes.k,
                           1.0F, static_cast<const uint16_t*>(a.const_data_ptr()), of_a.leading,
                           static_cast<const uint16_t*>(b.const_data_ptr()), of_b.leading, 1.0F,
                           c.mutable_data_ptr<float>(), BlasMatrix(c).leading);
}

class MklGemm final : public GemmBackend {
public:
    std::string_view name() const override { return "mkl"; }
    // "... Math Kernel Library Version 2024.2-Product Build ..."
    std::string version() const override {
        const std::vector<std::string> words = split(at::get_mkl_version(), ' ');
        for (size_t i = 0; i + 1 < words.size(); ++i)
            if (words[i] == "Version") return split(words[i + 1], '-').front();
        return "unknown";
    }
    bool serves(at::ScalarType) const override { return true; }

    void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor& bias) override {
        if (c.scalar_type() == at::kFloat) {
            if (bias.defined()) c.copy_(bias.expand_as(c));
            return multiply_fp32(c, a, b, bias.defined() ? 1 : 0);
        }
        // Adding to zeros is what MKL does fastest: faster than overwriting.
        const at::Tensor sums = at::zeros(c.sizes(), c.options().dtype(at::kFloat));
        if (bias.defined()) sums.copy_(bias.expand_as(sums));
        add_bf16_product(sums, a, b);
        cast(c, sums);
    }

    void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        if (a.scalar_type() == at::kFloat)
            multiply_fp32(c, a, b, 1);
        else
            add_bf16_product(c, a, b);
    }

    void write_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        if (a.scalar_type() == at::kFloat) return multiply_fp32(c, a, b, 0);
        GemmBackend::write_product(c, a, b);
    }

    // The sums of bf16, before they are rounded.
    int64_t workspace_bytes(const GemmKind& kind, const GemmSizes& sizes) const override {
        if (kind.type == at::kFloat || kind.pass == GemmPass::weight_gradient) return 0;
        return sizes.rows * sizes.columns * static_cast<int64_t>(sizeof(float));
    }
};

}  // namespace

std::unique_ptr<GemmBackend> make_mkl_gemm() { return std::make_unique<MklGemm>(); }

}  // namespace ringshard::ops
