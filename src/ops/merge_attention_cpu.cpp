#include <cmath>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

// The weights are the shares of the sums of exponentials.
RINGSHARD_SIMD void merge_row(float* __restrict out, const float* __restrict more, float keep,
                              float take, int64_t width) {
    for (int64_t i = 0; i < width; ++i) out[i] = keep * out[i] + take * more[i];
}

}  // namespace

void merge_attention(const SeenKeys& seen, const SeenKeys& added) {
    const at::Tensor more = added.out.to(at::kFloat).contiguous();
    const at::Tensor more_sum = added.lse.contiguous();
    const auto& [out, lse] = seen;
    const int64_t length = out.size(1);
    const int64_t heads = out.size(2);
    const int64_t width = out.size(3);
    at::parallel_for(0, out.size(0) * length, 64, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t n = row / length;
            const int64_t t = row % length;
            float* const out_row = out.data_ptr<float>() + n * out.stride(0) + t * out.stride(1);
            float* const lse_row = lse.data_ptr<float>() + n * lse.stride(0) + t * lse.stride(1);
            const float* const more_row = more.data_ptr<float>() + row * heads * width;
            const float* const more_lse_row = more_sum.data_ptr<float>() + row * heads;
            for (int64_t h = 0; h < heads; ++h) {
                const float largest = std::max(lse_row[h], more_lse_row[h]);
                const float keep = std::exp(lse_row[h] - largest);
                const float take = std::exp(more_lse_row[h] - largest);
                const float sum = keep + take;
                merge_row(out_row + h * width, more_row + h * width, keep / sum, take / sum, width);
                lse_row[h] = largest + std::log(sum);
            }
        }
    });
}

}  // namespace ringshard::ops::cpu
