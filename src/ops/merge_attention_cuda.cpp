#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

void merge_attention(const SeenKeys& seen, const SeenKeys& more) {
    const at::Tensor more_out = more.out.contiguous();
    const auto& [out, lse] = seen;
    RINGSHARD_CHECK(out.scalar_type() == at::kFloat && out.stride(3) == 1 &&
                    out.stride(2) == out.size(3) && lse.stride(2) == 1);
    gpu::merge_attention(gpu::queue_of(out), {.type = gpu::type_of(more_out),
                                              .out = out.mutable_data_ptr<float>(),
                                              .lse = lse.mutable_data_ptr<float>(),
                                              .more_out = gpu::data(more_out),
                                              .more_lse = more.lse.const_data_ptr<float>(),
                                              .n = out.size(0),
                                              .t = out.size(1),
                                              .heads = out.size(2),
                                              .width = out.size(3),
                                              .out_stride_n = out.stride(0),
                                              .out_stride_t = out.stride(1),
                                              .lse_stride_n = lse.stride(0),
                                              .lse_stride_t = lse.stride(1),
                                              .more_lse_stride_n = more.lse.stride(0),
                                              .more_lse_stride_t = more.lse.stride(1),
                                              .more_lse_stride_h = more.lse.stride(2)});
}

}  // namespace ringshard::ops::cuda
