#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "rows.hpp"

// FP8 numbers are exact in bf16: so products of bf16 with rounded factors are those of FP8.
namespace ringshard::ops::cpu {

namespace {

struct Form {
    int32_t exponent;  // of the largest number, whose mantissa is 1.75
    float largest;
    float smallest_normal;
    uint32_t dropped_bits;  // of an fp32 mantissa
    float shift;            // the ulp of its sums is the step between subnormal numbers
};

Form form_of(Fp8Format format) {
    return format == Fp8Format::e4m3 ? Form{8, 448.0F, 0x1p-6F, 20, 0x1.8p14F}
                                     : Form{15, 57344.0F, 0x1p-14F, 21, 0x1.8p7F};
}

RINGSHARD_INLINE float power_of_two(int32_t exponent) {
    return std::bit_cast<float>((exponent + 127) << 23);
}

// Returns the largest exponent with magnitude * 2^exponent <= form.largest; at most 110, so that
// the numbers of the row are normal in bf16. magnitude: the bits of an fp32 number above 0.
RINGSHARD_INLINE int32_t exponent_of(int32_t magnitude, const Form& form) {
    constexpr int32_t mantissa = 0x7fffff;
    constexpr int32_t three_quarters = 0x600000;
    constexpr int32_t most = 110;
    const int32_t exponent = form.exponent - ((magnitude >> 23) - 127) -
                             ((magnitude & mantissa) > three_quarters ? 1 : 0);
    return exponent < most ? exponent : most;
}

RINGSHARD_INLINE int32_t magnitude_of(float number) {
    return std::bit_cast<int32_t>(number) & 0x7fffffff;
}

// Returns the nearest number of the format, of two equally near ones the even one.
RINGSHARD_INLINE float rounded(float number, const Form& form) {
    const auto bits = std::bit_cast<uint32_t>(number);
    const uint32_t half = (1U << (form.dropped_bits - 1)) - 1 + ((bits >> form.dropped_bits) & 1U);
    const uint32_t kept = ~((1U << form.dropped_bits) - 1);
    const auto normal = std::bit_cast<float>((bits + half) & kept);
    const float subnormal = (number + form.shift) - form.shift;
    const float magnitude = std::bit_cast<float>(bits & 0x7fffffffU);
    const float nearest = magnitude < form.smallest_normal ? subnormal : normal;
    return magnitude <= form.largest ? nearest : std::numeric_limits<float>::quiet_NaN();
}

template <class T>
RINGSHARD_SIMD void round_row(T* __restrict into, const T* __restrict from, int64_t width,
                              Form form) {
    int32_t largest = 0;
    for (int64_t i = 0; i < width; ++i) {
        const int32_t magnitude = magnitude_of(load(from[i]));
        largest = magnitude > largest ? magnitude : largest;
    }
    const int32_t exponent = exponent_of(largest, form);
    const float scale = power_of_two(exponent);
    const float back = power_of_two(-exponent);
    for (int64_t i = 0; i < width; ++i) store(into[i], rounded(load(from[i]) * scale, form) * back);
}

// With a scale that may be too large: numbers beyond the range become the largest one. Returns the
// largest magnitude.
template <class T>
RINGSHARD_SIMD int32_t round_saturating(T* __restrict into, const T* __restrict from, int64_t count,
                                        int32_t exponent, Form form) {
    constexpr int32_t infinity = 0x7f800000;
    const float scale = power_of_two(exponent);
    const float back = power_of_two(-exponent);
    int32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float number = load(from[i]);
        const int32_t magnitude = magnitude_of(number);
        largest = magnitude > largest ? magnitude : largest;
        const float scaled = number * scale;
        const float above = scaled > form.largest ? form.largest : scaled;
        const float within = above < -form.largest ? -form.largest : above;
        const float finite = magnitude < infinity ? within : std::numeric_limits<float>::infinity();
        store(into[i], rounded(finite, form) * back);
    }
    return largest;
}

template <class T>
RINGSHARD_SIMD void find_largest(int32_t* __restrict largest, const T* __restrict from,
                                 int64_t width) {
    for (int64_t i = 0; i < width; ++i) {
        const int32_t magnitude = magnitude_of(load(from[i]));
        largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
}

template <class T>
RINGSHARD_SIMD void round_by_column(T* __restrict into, const T* __restrict from,
                                    const int32_t* __restrict largest, int64_t width, Form form) {
    for (int64_t i = 0; i < width; ++i) {
        const int32_t exponent = exponent_of(largest[i], form);
        store(into[i],
              rounded(load(from[i]) * power_of_two(exponent), form) * power_of_two(-exponent));
    }
}

template <class T>
void round_rows(const at::Tensor& into, const at::Tensor& from, const Form& form) {
    const int64_t width = from.size(1);
    at::parallel_for(0, from.size(0), grain(width), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row)
            round_row(data<T>(into) + row * width, data<T>(from) + row * width, width, form);
    });
}

void raise(int32_t& maximum, int32_t magnitude) {
    std::atomic_ref<int32_t> shared(maximum);
    int32_t before = shared.load(std::memory_order_relaxed);
    while (before < magnitude && !shared.compare_exchange_weak(before, magnitude)) {
    }
}

template <class T>
RINGSHARD_SIMD int32_t largest_magnitude_of(const T* __restrict from, int64_t count) {
    int32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const int32_t magnitude = magnitude_of(load(from[i]));
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

// Raises the maximum to the largest magnitude of the first rows.
void raise_to_rows(int32_t& maximum, const at::Tensor& from, int64_t rows) {
    const int64_t width = from.size(1);
    with_type(from, [&]<class T>(T*) {
        at::parallel_for(0, rows, grain(width), [&](int64_t first, int64_t last) {
            raise(maximum,
                  largest_magnitude_of(data<T>(from) + first * width, (last - first) * width));
        });
    });
}

// Rounds with one scale. Raises `maximum`, unless it is null, to the largest magnitude of the first
// `counted` rows.
template <class T>
void round_all(const at::Tensor& into, const at::Tensor& from, int32_t exponent, const Form& form,
               int32_t* maximum, int64_t counted) {
    const int64_t width = from.size(1);
    at::parallel_for(0, from.size(0), grain(width), [&](int64_t first, int64_t last) {
        int32_t largest = 0;
        for (int64_t row = first; row < last; ++row) {
            const int32_t of_row = round_saturating(
                data<T>(into) + row * width, data<T>(from) + row * width, width, exponent, form);
            if (row < counted) largest = std::max(largest, of_row);
        }
        if (maximum != nullptr) raise(*maximum, largest);
    });
}

template <class T>
void round_columns(const at::Tensor& into, const at::Tensor& from, const Form& form) {
    const int64_t rows = from.size(0);
    const int64_t width = from.size(1);
    at::parallel_for(0, width, grain(rows), [&](int64_t first, int64_t last) {
        std::vector<int32_t> largest(static_cast<size_t>(last - first));
        for (int64_t row = 0; row < rows; ++row)
            find_largest(largest.data(), data<T>(from) + row * width + first, last - first);
        for (int64_t row = 0; row < rows; ++row) {
            const int64_t place = row * width + first;
            round_by_column(data<T>(into) + place, data<T>(from) + place, largest.data(),
                            last - first, form);
        }
    });
}

int32_t* number_of(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.mutable_data_ptr<int32_t>() : nullptr;
}

at::Tensor round_tensor(const at::Tensor& from, const Form& form, const DelayedScale& delayed) {
    at::Tensor into = at::empty_like(from);
    int32_t exponent = 0;
    if (delayed.exponent.defined()) {
        exponent = *number_of(delayed.exponent);
    } else {
        int32_t largest = 0;
        raise_to_rows(largest, from, from.size(0));
        exponent = exponent_of(largest, form);
    }
    with_type(from, [&]<class T>(T*) {
        round_all<T>(into, from, exponent, form, number_of(delayed.maximum), delayed.counted);
    });
    return into;
}

}  // namespace

}  // namespace ringshard::ops::cpu

namespace ringshard::ops {

int32_t fp8_exponent(float magnitude, Fp8Format format, int64_t margin) {
    const cpu::Form form = cpu::form_of(format);
    const int64_t exponent = cpu::exponent_of(cpu::magnitude_of(magnitude), form) - margin;
    // The largest number of the format stays finite.
    return static_cast<int32_t>(std::max<int64_t>(exponent, form.exponent - 127));
}

}  // namespace ringshard::ops

namespace ringshard::ops::cpu {

at::Tensor round_to_fp8(const at::Tensor& x, Fp8Format format, Fp8Scales scales,
                        const DelayedScale& delayed) {
    const at::Tensor from = x.contiguous();
    const Form form = form_of(format);
    if (scales == Fp8Scales::of_tensor) return round_tensor(from, form, delayed);
    if (int32_t* const maximum = number_of(delayed.maximum))
        raise_to_rows(*maximum, from, delayed.counted);
    at::Tensor into = at::empty_like(from);
    with_type(from, [&]<class T>(T*) {
        if (scales == Fp8Scales::of_rows)
            round_rows<T>(into, from, form);
        else
            round_columns<T>(into, from, form);
    });
    return into;
}

at::Tensor fp8_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, Fp8Scales scales, const DelayedScale& delayed) {
    return cpu::linear(gemms, cpu::round_to_fp8(x, Fp8Format::e4m3, scales, delayed),
                       cpu::round_to_fp8(weight, Fp8Format::e4m3, scales, {}), bias);
}

at::Tensor fp8_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                     const at::Tensor& weight, Fp8Format format, Fp8Scales scales,
                                     const DelayedScale& delayed) {
    const Fp8Scales of_weight =
        scales == Fp8Scales::of_rows ? Fp8Scales::of_columns : Fp8Scales::of_tensor;
    return cpu::linear_backward_input(gemms, cpu::round_to_fp8(dy, format, scales, delayed),
                                      cpu::round_to_fp8(weight, Fp8Format::e4m3, of_weight, {}));
}

}  // namespace ringshard::ops::cpu
