#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <cublas_v2.h>

#include "backends.hpp"
#include "gpu_products.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"

namespace ringshard::ops::cuda {

namespace {

// into [m, n] = share * into + a^T b, for bf16 a [t, m] and b [t, n] and fp32 sums. LibTorch has no
// operator for it. To cuBLAS, whose matrices go by columns, into is [n, m] = b' a'^T with b' [n, t]
// and a' [m, t].
void add_bf16_product(const at::Tensor& into, const at::Tensor& a, const at::Tensor& b,
                      float share) {
    RINGSHARD_CHECK(into.stride(1) == 1 && a.stride(1) == 1 && b.stride(1) == 1);
    constexpr float one = 1;
    const cublasStatus_t status = cublasGemmEx(
        at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_T, narrow<int>(into.size(1)),
        narrow<int>(into.size(0)), narrow<int>(a.size(0)), &one, b.const_data_ptr(), CUDA_R_16BF,
        narrow<int>(b.stride(0)), a.const_data_ptr(), CUDA_R_16BF, narrow<int>(a.stride(0)), &share,
        into.mutable_data_ptr(), CUDA_R_32F, narrow<int>(into.stride(0)), CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT);
    RINGSHARD_CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasGemmEx of {} x {} x {}: {}",
                    into.size(0), into.size(1), a.size(0), cublasGetStatusString(status));
}

// If a kernel was taken for this shape.
bool multiply_as_taken(const Gemms& gemms, const GpuProduct& product) {
    if (!gemms.on_gpu().has_taken(product)) return false;
    gemms.on_gpu().multiply(product);
    return true;
}

}  // namespace

at::Tensor linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
    if (x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.size(0) > 0) {
        const GpuProduct product{at::empty({x.size(0), weight.size(0)}, x.options()), x, weight.t(),
                                 at::Tensor(), bias};
        if (multiply_as_taken(gemms, product)) return product.result;
    }
    return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor linear_add(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, const at::Tensor& addend, const at::Tensor& into) {
    at::Tensor y = into.defined() ? into : at::empty({x.size(0), weight.size(0)}, x.options());
    if (y.numel() == 0) return y;
    if (x.is_cuda()) {
        gemms.on_gpu().multiply({y, x, weight.t(), addend, bias});
        return y;
    }
    at::addmm_out(y, addend, x, weight.t());
    return bias.defined() ? y.add_(bias) : y;
}

at::Tensor linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                 const at::Tensor& weight) {
    if (dy.is_cuda() && dy.scalar_type() == at::kBFloat16 && dy.size(0) > 0) {
        const GpuProduct product{at::empty({dy.size(0), weight.size(1)}, dy.options()), dy, weight};
        if (multiply_as_taken(gemms, product)) return product.result;
    }
    return at::mm(dy, weight);
}

void add_linear(const Gemms&, const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight) {
    y.addmm_(x, weight.t());
}

void add_linear_backward_input(const Gemms&, const at::Tensor& dx, const at::Tensor& dy,
                               const at::Tensor& weight) {
    dx.addmm_(dy, weight);
}

void add_weight_gradient(const Gemms& gemms, const at::Tensor& d_weight, const at::Tensor& dy,
                         const at::Tensor& x, bool begins) {
    if (x.size(0) == 0) {
        if (begins) d_weight.zero_();
        return;
    }
    const int share = begins ? 0 : 1;  // of what is there: times 0, it is not even read
    if (x.scalar_type() == at::kFloat)
        d_weight.addmm_(dy.t(), x, share);
    else if (!x.is_cuda())  // there is no kernel to walk through
        cpu::add_weight_gradient(gemms, d_weight, dy, x, begins);
    else if (const auto of_sum = static_cast<float>(share);
             !multiply_as_taken(gemms, {d_weight, dy.t(), x, d_weight, at::Tensor(), of_sum}))
        add_bf16_product(d_weight, dy, x, of_sum);
}

void add_bias_gradient(const at::Tensor& d_bias, const at::Tensor& dy) {
    d_bias.add_(dy.sum(0, false, at::kFloat));
}

}  // namespace ringshard::ops::cuda
