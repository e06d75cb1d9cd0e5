#include "ringshard/ops/int8.hpp"

#include <c10/util/Half.h>

#include <atomic>
#include <bit>
#include <cmath>

#include "backends.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

constexpr float largest_code = 127;
constexpr float of_code = 7.874015748698502e-3F;  // 1 / 127, as bitsandbytes rounds it

// Returns the scale of the row, which is infinite where a weight is beyond the range of fp16.
float quantize_row(const float* weights, uint8_t* codes, int64_t width) {
    float scale = 0;
    for (int64_t i = 0; i < width; ++i)
        scale = std::max(scale, std::abs(static_cast<float>(c10::Half(weights[i]))));
    if (!std::isfinite(scale)) return scale;
    const float factor = scale > 0 ? 1 / scale * largest_code : 0;  // rounded twice, as there
    for (int64_t i = 0; i < width; ++i) {
        const float code = std::nearbyint(static_cast<float>(c10::Half(weights[i])) * factor);
        codes[i] = std::bit_cast<uint8_t>(static_cast<int8_t>(code));
    }
    return scale;
}

template <class T>
RINGSHARD_SIMD void put_row(T* __restrict into, const int8_t* __restrict codes, float scale,
                            int64_t width) {
    for (int64_t i = 0; i < width; ++i)
        store(into[i], static_cast<float>(codes[i]) * scale * of_code);
}

}  // namespace

bool quantize_int8(std::span<const float> weights, int64_t width, std::span<uint8_t> codes,
                   std::span<float> scales) {
    const int64_t rows = std::ssize(scales);
    RINGSHARD_CHECK(std::ssize(weights) == rows * width && codes.size() == weights.size());
    std::atomic<bool> fits = true;
    at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            float& scale = scales[narrow<size_t>(row)];
            scale = quantize_row(weights.data() + row * width, codes.data() + row * width, width);
            if (!std::isfinite(scale)) fits = false;
        }
    });
    return fits;
}

namespace cpu {

void dequantize_int8(const at::Tensor& into, const Int8Matrix& from) {
    const int64_t rows = from.scales.numel();
    const int64_t width = into.numel() / rows;
    RINGSHARD_CHECK(width * rows == into.numel() && from.codes.numel() == into.numel());
    const auto* const codes = data<const int8_t>(from.codes);
    const auto* const scales = data<const float>(from.scales);
    with_type(into, [&]<class T>(T*) {
        T* const weights = data<T>(into);
        at::parallel_for(0, rows, grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row)
                put_row(weights + row * width, codes + row * width, scales[row], width);
        });
    });
}

}  // namespace cpu

}  // namespace ringshard::ops
