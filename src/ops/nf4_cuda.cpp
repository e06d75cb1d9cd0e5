#include <algorithm>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

void dequantize_nf4(const at::Tensor& into, const Nf4Matrix& from) {
    gpu::DequantizeNf4 work{.type = gpu::type_of(into),
                            .into = gpu::data(into),
                            .codes = gpu::data<const uint8_t>(from.codes),
                            .count = into.numel()};
    std::ranges::copy(nf4_values, work.values);
    if (from.scales.scalar_type() == at::kFloat) {
        work.scales = gpu::data<const float>(from.scales);
    } else {
        work.scale_codes = gpu::data<const uint8_t>(from.scales);
        work.nested_scales = gpu::data<const float>(from.nested_scales);
        work.mean = gpu::data<const float>(from.mean);
        std::ranges::copy(nf4_scale_values(), work.scale_values);
    }
    gpu::dequantize_nf4(gpu::queue_of(into), work);
}

}  // namespace ringshard::ops::cuda
