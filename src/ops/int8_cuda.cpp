#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

void dequantize_int8(const at::Tensor& into, const Int8Matrix& from) {
    gpu::dequantize_int8(gpu::queue_of(into), {.type = gpu::type_of(into),
                                               .into = gpu::data(into),
                                               .codes = gpu::data<const int8_t>(from.codes),
                                               .scales = gpu::data<const float>(from.scales),
                                               .rows = from.scales.numel(),
                                               .width = into.numel() / from.scales.numel()});
}

}  // namespace ringshard::ops::cuda
