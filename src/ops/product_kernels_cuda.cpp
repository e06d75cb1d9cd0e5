#include "ringshard/ops/product_kernels.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cublasLt.h>

#include "gpu_products.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::ops {

namespace {

// A product on numbers of its own, laid out as a layer's are.
GpuProduct sample_of(const LayerProduct& product) {
    const at::TensorOptions bf16 =
        at::TensorOptions(at::Device(at::kCUDA, c10::cuda::current_device())).dtype(at::kBFloat16);
    const auto& [pass, tokens, out, in] = product;
    switch (pass) {
        case GemmPass::forward:
            return {at::empty({tokens, out}, bf16), at::randn({tokens, in}, bf16),
                    at::randn({out, in}, bf16).t()};
        case GemmPass::input_gradient:
            return {at::empty({tokens, in}, bf16), at::randn({tokens, out}, bf16),
                    at::randn({out, in}, bf16)};
        case GemmPass::weight_gradient: break;
    }
    const at::Tensor sums = at::zeros({out, in}, bf16.dtype(at::kFloat));
    return {sums, at::randn({tokens, out}, bf16).t(), at::randn({tokens, in}, bf16), sums};
}

class CublasLtKernels final : public ProductKernels {
public:
    explicit CublasLtKernels(GpuProducts& products) : products_(products) {}
    // The model needs the memory.
    ~CublasLtKernels() override {
        sample_ = {};
        c10::cuda::CUDACachingAllocator::emptyCache();
    }
    CublasLtKernels(const CublasLtKernels&) = delete;
    CublasLtKernels& operator=(const CublasLtKernels&) = delete;

    std::string gpu() const override { return at::cuda::getCurrentDeviceProperties()->name; }
    std::string library() const override {
        return format_text("cublasLt {}", cublasLtGetVersion());
    }

    int64_t count(const LayerProduct& product) override {
        return products_.count_kernels(sample(product));
    }

    double seconds(const LayerProduct& product, int64_t kernel) override {
        constexpr int times = 3;
        const GpuProduct& sampled = sample(product);
        products_.multiply_by(sampled, kernel);
        at::cuda::CUDAEvent begin(cudaEventDefault);
        at::cuda::CUDAEvent end(cudaEventDefault);
        begin.record();
        for (int i = 0; i < times; ++i) products_.multiply_by(sampled, kernel);
        end.record();
        end.synchronize();
        return 1e-3 * begin.elapsed_time(end) / times;
    }

    void take(const LayerProduct& product, int64_t kernel) override {
        products_.take(sample(product), kernel);
    }

private:
    const GpuProduct& sample(const LayerProduct& product) {
        if (product != sampled_) {
            sample_ = {};  // so that its memory serves the next one
            sample_ = sample_of(product);
            sampled_ = product;
        }
        return sample_;
    }

    GpuProducts& products_;
    LayerProduct sampled_{};
    GpuProduct sample_;
};

}  // namespace

std::unique_ptr<ProductKernels> open_product_kernels(const Gemms& gemms) {
    return std::make_unique<CublasLtKernels>(gemms.on_gpu());
}

}  // namespace ringshard::ops
