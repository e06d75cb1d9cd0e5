#include "ringshard/plan/part_kernels.hpp"

#include <algorithm>

namespace ringshard::plan {

namespace {

// Of cuBLAS, cuBLASLt and CUTLASS; the second kernel of a product that is split is a sum.
const std::vector<std::string> product_kernels{"gemm", "nvjet", "gemv", "splitKreduce",
                                               "cublasLt::"};
// Of cuDNN and FlashAttention-2.
const std::vector<std::string> attention_forward{"flash_fprop", "flash_fwd"};
const std::vector<std::string> attention_backward{"flash_bprop", "flash_bwd", "compute_dot_do_o",
                                                  "convert_dq_to_16bits", "fmha_reduce_head"};
const std::vector<std::string> conv_forward{"::ConvForward"};

// Products within the chunks of a gated delta net, by cuBLAS, and the programs between them.
std::vector<std::string> states() {
    std::vector<std::string> words = product_kernels;
    words.insert(words.end(), {"::Walk", "::Inverse"});
    return words;
}

// The programs of src/ops/gpu are in the names of their kernels.
const std::vector<PartKernels>& counted() {
    static const std::vector<PartKernels> parts{
        {"attention, forward", attention_forward},
        {"attention, again", attention_forward},
        {"attention, backward", attention_backward},
        {"merges of the ring", {"::MergeHead"}},
        {"convolution, forward", conv_forward},
        {"convolution, again", conv_forward},
        {"convolution, gradient of inputs", {"::OfSums", "::OfRows", "::OfWeights"}},
        {"states, forward", states()},
        {"states, again", states()},
        {"states, gradient of inputs", states()},
        {"rounding to FP8", {"::Quantize", "::FindLargest", "::RaiseMaximum"}},
        {"row kernels", {}},  // of a host
        {"loss", {"::LossOfToken"}},
        {"update of weights", {"Update<"}},
        {"copies of offloaded state", {"Memcpy HtoD", "Memcpy DtoH"}}};
    return parts;
}

}  // namespace

std::vector<std::string> kernels_of(std::string_view part) {
    if (part.starts_with("sent over ")) return {"nccl"};
    const auto found = std::ranges::find(counted(), part, &PartKernels::part);
    return found == counted().end() ? product_kernels : found->words;
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
        {"weights from four bits", {"::Dequantize"}},
        {"sums of squares", {"::SumBlock"}},
        {"numbers to the host and back", {"Memcpy HtoD", "Memcpy DtoH"}},
        {"copies on the device", {"Memcpy DtoD", "direct_copy_kernel", "CatArrayBatchedCopy"}},
        {"clearing", {"Memset", "FillFunctor"}},
        {"sums by LibTorch", {"::reduce_kernel"}},
        {"communication", {"nccl"}}};
    return parts;
}

}  // namespace ringshard::plan
