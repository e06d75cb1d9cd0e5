#include "gpu_products.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublasLt.h>
#include <cublas_v2.h>

#include <array>
#include <span>
#include <vector>

#include "groups.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/ops/gemm.hpp"

namespace ringshard::ops {

namespace {

void check(cublasStatus_t status, const char* call, const ProductShape& shape) {
    RINGSHARD_CHECK(status == CUBLAS_STATUS_SUCCESS, "{} of {} x {}, {} terms: {}", call,
                    shape.result.columns, shape.result.rows,
                    shape.turns_left ? shape.left.rows : shape.left.columns,
                    cublasGetStatusString(status));
}

cudaDataType_t cuda_type(at::ScalarType type) {
    RINGSHARD_CHECK(type == at::kFloat || type == at::kBFloat16, "products of {}",
                    at::toString(type));
    return type == at::kFloat ? CUDA_R_32F : CUDA_R_16BF;
}

template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
    using pointer = Handle;
    void operator()(Handle handle) const { destroy(handle); }
};
using Operation = std::unique_ptr<void, Destroy<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<void, Destroy<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<void, Destroy<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t name, const Value& value,
         const ProductShape& shape) {
    check(cublasLtMatmulDescSetAttribute(operation.get(), name, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute", shape);
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t name,
         const Value& value, const ProductShape& shape) {
    check(cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", shape);
}

Layout layout_of(const MatrixLayout& matrix, at::ScalarType type, const ProductShape& shape) {
    cublasLtMatrixLayout_t layout = nullptr;
    check(cublasLtMatrixLayoutCreate(&layout, cuda_type(type), narrow<uint64_t>(matrix.rows),
                                     narrow<uint64_t>(matrix.columns), matrix.stride),
          "cublasLtMatrixLayoutCreate", shape);
    return Layout(layout);
}

Operation operation_of(const ProductShape& shape) {
    cublasLtMatmulDesc_t handle = nullptr;
    const bool is_tf32 = shape.type == at::kFloat && at::globalContext().allowTF32CuBLAS();
    check(cublasLtMatmulDescCreate(
              &handle, is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate", shape);
    Operation operation(handle);
    const auto turned = [](bool turns) { return turns ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, turned(shape.turns_left), shape);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, turned(shape.turns_right), shape);
    if (shape.multiprocessors > 0)
        set(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, shape.multiprocessors, shape);
    if (!shape.has_bias) return operation;
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, shape);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(shape.type), shape);
    return operation;
}

// Where the matrices of a product lie.
struct Places {
    const void* left;
    const void* right;
    const void* addend;
    void* result;
};

}  // namespace

// cuBLASLt's description of a shape, and the kernel that it runs for the shape.
class GpuProducts::Plan {
public:
    explicit Plan(const ProductShape& shape)
        : shape_(shape),
          operation_(operation_of(shape)),
          left_(layout_of(shape.left, shape.type, shape)),
          right_(layout_of(shape.right, shape.type, shape)),
          addend_(layout_of(shape.addend, shape.type_of_result, shape)),
          result_(layout_of(shape.result, shape.type_of_result, shape)) {
        cublasLtMatmulPreference_t handle = nullptr;
        check(cublasLtMatmulPreferenceCreate(&handle), "cublasLtMatmulPreferenceCreate", shape);
        const Preference preference(handle);
        set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            uint64_t{at::cuda::getCUDABlasLtWorkspaceSize()}, shape);
        // Parts of a sum are added in fp32.
        set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            shape.may_split_sums ? uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}
                                 : uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE},
            shape);
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.alignments[0], shape);
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.alignments[1], shape);
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.alignments[2], shape);
        set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.alignments[3], shape);
        constexpr int most_kernels = 8;
        std::array<cublasLtMatmulHeuristicResult_t, most_kernels> found{};
        int count = 0;
        check(
            cublasLtMatmulAlgoGetHeuristic(at::cuda::getCurrentCUDABlasLtHandle(), operation_.get(),
                                           left_.get(), right_.get(), addend_.get(), result_.get(),
                                           preference.get(), most_kernels, found.data(), &count),
            "cublasLtMatmulAlgoGetHeuristic", shape);
        for (const cublasLtMatmulHeuristicResult_t& each :
             std::span(found).first(narrow<size_t>(count)))
            if (each.state == CUBLAS_STATUS_SUCCESS) kernels_.push_back(each.algo);
        RINGSHARD_CHECK(!kernels_.empty(), "cuBLASLt has no kernel");
    }

    int64_t count_kernels() const { return std::ssize(kernels_); }
    const cublasLtMatmulAlgo_t& kernel(int64_t number) const {
        return kernels_.at(narrow<size_t>(number));
    }
    // Takes the kernel of another plan if it serves this product, too.
    void take(const cublasLtMatmulAlgo_t& kernel) {
        cublasLtMatmulHeuristicResult_t result{};
        const cublasStatus_t status = cublasLtMatmulAlgoCheck(
            at::cuda::getCurrentCUDABlasLtHandle(), operation_.get(), left_.get(), right_.get(),
            addend_.get(), result_.get(), &kernel, &result);
        if (status == CUBLAS_STATUS_SUCCESS &&
            result.workspaceSize <= at::cuda::getCUDABlasLtWorkspaceSize())
            kernels_.front() = kernel;
    }

    void multiply(const GpuProduct& product, int64_t number) {
        if (shape_.has_bias)
            set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias.const_data_ptr(),
                shape_);
        void* const result = product.result.mutable_data_ptr();
        multiply({product.b.const_data_ptr(), product.a.const_data_ptr(),
                  shape_.has_addend ? product.addend.const_data_ptr() : result, result},
                 shape_.has_addend ? product.share_of_addend : 0, kernel(number));
    }
    // Of so many tokens, in place of those of the shape.
    void multiply(const Places& places, float share_of_addend, int64_t tokens) {
        set_columns(right_, tokens);
        if (shape_.turns_right) {
            set_columns(left_, tokens);
        } else {
            set_columns(addend_, tokens);
            set_columns(result_, tokens);
        }
        multiply(places, share_of_addend, kernels_.front());
    }

private:
    void multiply(const Places& places, float share_of_addend,
                  const cublasLtMatmulAlgo_t& kernel) const {
        const float one = 1;
        check(cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), operation_.get(), &one,
                             places.left, left_.get(), places.right, right_.get(), &share_of_addend,
                             places.addend, addend_.get(), places.result, result_.get(), &kernel,
                             at::cuda::getCUDABlasLtWorkspace(),
                             at::cuda::getCUDABlasLtWorkspaceSize(),
                             at::cuda::getCurrentCUDAStream()),
              "cublasLtMatmul", shape_);
    }
    void set_columns(const Layout& layout, int64_t columns) const {
        const auto number = narrow<uint64_t>(columns);
        check(cublasLtMatrixLayoutSetAttribute(layout.get(), CUBLASLT_MATRIX_LAYOUT_COLS, &number,
                                               sizeof number),
              "cublasLtMatrixLayoutSetAttribute", shape_);
    }

    ProductShape shape_;
    Operation operation_;
    Layout left_;
    Layout right_;
    Layout addend_;
    Layout result_;
    std::vector<cublasLtMatmulAlgo_t> kernels_;
};

GpuProducts::GpuProducts() = default;
GpuProducts::~GpuProducts() = default;

namespace {

// Those that products may use at the moment.
int32_t multiprocessors_now() {
    int32_t multiprocessors = 0;
    const cublasStatus_t status =
        cublasGetSmCountTarget(at::cuda::getCurrentCUDABlasHandle(), &multiprocessors);
    RINGSHARD_CHECK(status == CUBLAS_STATUS_SUCCESS, "{}", cublasGetStatusString(status));
    return multiprocessors;
}
ProductShape shape_now(const GpuProduct& product) {
    return shape_of(product, multiprocessors_now());
}

// Part `number` along the first dimension.
char* part_of(const at::Tensor& all, int64_t number) {
    return static_cast<char*>(all.mutable_data_ptr()) + number * all.stride(0) * all.element_size();
}

Places places_of(const GroupedProduct& product, int64_t group, int64_t first_row) {
    char* const y = part_of(product.y, first_row);
    char* const x = part_of(product.x, first_row);
    char* const w = part_of(product.w, group);
    switch (product.pass) {
        case GemmPass::forward: return {w, x, y, y};
        case GemmPass::input_gradient: return {w, y, x, x};
        case GemmPass::weight_gradient: break;
    }
    return {x, y, w, w};
}

}  // namespace

void GpuProducts::multiply_groups(const GroupedProduct& product, const std::vector<int64_t>& counts,
                                  int64_t least_rows) {
    constexpr int64_t rows_of_a_usual_group = 512;
    Plan& plan = plan_of(shape_of_group(product, rows_of_a_usual_group, multiprocessors_now()));
    for_groups(counts, [&](int64_t group, int64_t begin, int64_t count) {
        if (count >= least_rows)
            plan.multiply(places_of(product, group, begin), product.share_of_w, count);
    });
}

void GpuProducts::multiply(const GpuProduct& product) {
    constexpr int64_t taken_or_own = 0;
    multiply_by(product, taken_or_own);
}

int64_t GpuProducts::count_kernels(const GpuProduct& product) {
    return plan_of(shape_now(product)).count_kernels();
}

void GpuProducts::multiply_by(const GpuProduct& product, int64_t kernel) {
    plan_of(shape_now(product)).multiply(product, kernel);
}

void GpuProducts::take(const GpuProduct& product, int64_t kernel) {
    const ProductShape shape = shape_now(product);
    const cublasLtMatmulAlgo_t taken = Plan(shape).kernel(kernel);  // of cuBLASLt's own order
    taken_[shape.of_any_tokens()].insert_or_assign(shape.tokens(), taken);
    plans_.clear();  // other shapes may choose it, too
}

bool GpuProducts::has_taken(const GpuProduct& product) const {
    return !taken_.empty() && taken_for(shape_now(product)) != nullptr;
}

const cublasLtMatmulAlgo_t* GpuProducts::taken_for(const ProductShape& shape) const {
    const auto found = taken_.find(shape.of_any_tokens());
    if (found == taken_.end()) return nullptr;
    const auto timed = found->second.lower_bound(shape.tokens());
    if (timed == found->second.end() || 8 * shape.tokens() < 7 * timed->first) return nullptr;
    return &timed->second;
}

GpuProducts::Plan& GpuProducts::plan_of(const ProductShape& shape) {
    // The number of rows changes from pack to pack.
    constexpr size_t most_plans = 512;
    if (plans_.size() >= most_plans && !plans_.contains(shape)) plans_.clear();
    std::unique_ptr<Plan>& plan = plans_[shape];
    if (plan) return *plan;
    plan = std::make_unique<Plan>(shape);
    if (const cublasLtMatmulAlgo_t* const taken = taken_for(shape)) plan->take(*taken);
    return *plan;
}

GpuProducts& Gemms::on_gpu() const {
    if (!on_gpu_) on_gpu_ = std::make_shared<GpuProducts>();
    return *on_gpu_;
}

}  // namespace ringshard::ops
