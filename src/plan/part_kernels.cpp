#include "ringshard/plan/part_kernels.hpp"

#include <algorithm>

namespace ringshard::plan {

namespace {

// The programs of src/ops/gpu are in the names of their kernels.
const std::vector<PartKernels>& counted() {
    static const std::vector<PartKernels> parts{
        {"merges of the ring", {"::MergeHead"}},
        {"rounding to FP8", {"::Quantize", "::FindLargest", "::RaiseMaximum"}},
        {"row kernels", {}},  // of a host
        {"loss", {"::LossOfToken"}},
        {"update of weights", {"Update<"}},
        {"copies of offloaded state", {"Memcpy HtoD", "Memcpy DtoH"}}};
    return parts;
}

}  // namespace

const std::vector<std::string>& product_kernels() {
    // Of cuBLAS, cuBLASLt and CUTLASS; the second kernel of a product that is split is a sum.
    static const std::vector<std::string> words{"gemm", "nvjet", "gemv", "splitKreduce",
                                                "cublasLt::"};
    return words;
}

std::vector<std::string> kernels_of(std::string_view part) {
    if (part.starts_with("sent over ")) return {"nccl"};
    const auto found = std::ranges::find(counted(), part, &PartKernels::part);
    return found == counted().end() ? product_kernels() : found->words;
}

const std::vector<PartKernels>& uncounted_kernels() {
    static const std::vector<PartKernels> parts{
        {"embedding",
         {"::AddRowsOfToken", "::AddStretchesOfToken", "indexSelect", "vectorized_gather",
          "RadixSort"}},
        {"norms of heads", {"::NormalizeHead", "::HeadBackward"}},
        {"sums of gradients of norms and biases", {"::AddRows"}},
        {"tables of RoPE", {"::MakeTable"}},
        {"merging of attention", {"::MergeHead"}},  // of calls; with a ring the plan counts it
        {"weights from codes", {"::Dequantize"}},
        {"sums of squares", {"::SumBlock"}},
        {"numbers to the host and back", {"Memcpy HtoD", "Memcpy DtoH"}},
        {"copies on the device", {"Memcpy DtoD", "direct_copy_kernel", "CatArrayBatchedCopy"}},
        {"clearing", {"Memset", "FillFunctor"}},
        {"sums by LibTorch", {"::reduce_kernel"}},
        {"communication", {"nccl"}}};
    return parts;
}

}  // namespace ringshard::plan
