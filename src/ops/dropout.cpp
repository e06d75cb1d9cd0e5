#include "dropout_mask.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <cmath>

#include "ringshard/base/simd.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

constexpr uint32_t column_step = 0x9e3779b9;
constexpr uint32_t first_factor = 0x7feb352d;
constexpr uint32_t second_factor = 0x846ca68b;

double scale_of(const DropoutMask& mask) { return 1 / (1 - mask.probability); }

uint32_t threshold_of(double probability) {
    return static_cast<uint32_t>(std::min(std::ldexp(probability, 32), 4294967295.0));
}

inline uint32_t bits_of(uint64_t key, int64_t column) {
    uint32_t bits = static_cast<uint32_t>(key) + static_cast<uint32_t>(column) * column_step;
    bits = (bits ^ (bits >> 16)) * first_factor;
    bits ^= static_cast<uint32_t>(key >> 32);
    bits = (bits ^ (bits >> 15)) * second_factor;
    return bits ^ (bits >> 16);
}

// `adds`: to what is there.
template <bool adds, class T>
RINGSHARD_SIMD void drop_row(T* __restrict to, const T* __restrict from, int64_t width,
                             uint64_t key, uint32_t threshold, float scale) {
    for (int64_t column = 0; column < width; ++column) {
        const bool is_kept = bits_of(key, column) >= threshold;
        const float kept = is_kept ? load(from[column]) * scale : 0.0F;
        store(to[column], adds ? load(to[column]) + kept : kept);
    }
}

// A row of y = dropout(x), and of into += dropout(added).
template <class T>
RINGSHARD_SIMD void drop_rows(T* __restrict y, const T* __restrict x, T* __restrict into,
                              const T* __restrict added, int64_t width, uint64_t key,
                              uint32_t threshold, float scale) {
    for (int64_t column = 0; column < width; ++column) {
        const bool is_kept = bits_of(key, column) >= threshold;
        store(y[column], is_kept ? load(x[column]) * scale : 0.0F);
        const float more = is_kept ? load(added[column]) * scale : 0.0F;
        store(into[column], load(into[column]) + more);
    }
}

// Calls work(row, its key) for the rows of x.
template <class Work>
void for_rows(const at::Tensor& x, const DropoutMask& mask, Work work) {
    at::parallel_for(0, x.size(0), 16, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t)
            work(t, static_cast<uint64_t>(data<int64_t>(mask.keys)[t]) ^ mask.salt);
    });
}

template <bool adds>
void drop_on_host(const at::Tensor& y, const at::Tensor& x, const DropoutMask& mask) {
    const int64_t width = x.size(1);
    const auto scale = static_cast<float>(scale_of(mask));
    const uint32_t threshold = threshold_of(mask.probability);
    with_type(x, [&]<class T>(T*) {
        for_rows(x, mask, [&](int64_t t, uint64_t key) {
            drop_row<adds>(data<T>(y) + t * width, data<T>(x) + t * x.stride(0), width, key,
                           threshold, scale);
        });
    });
}

}  // namespace

namespace {

// 32 bits in an int64 each, [keys, width].
at::Tensor all_bits(const at::Tensor& keys, uint64_t salt, int64_t width) {
    constexpr int64_t low_bits = 0xffffffff;
    const auto shifted = [](const at::Tensor& bits, int64_t by) {
        return at::bitwise_right_shift(bits, by);
    };
    const auto low = [](const at::Tensor& bits) { return at::bitwise_and(bits, low_bits); };
    const at::Tensor key = at::bitwise_xor(keys, static_cast<int64_t>(salt)).unsqueeze(1);
    const at::Tensor columns = at::arange(width, keys.options()).mul_(int64_t{column_step});
    at::Tensor bits = low(low(key) + columns.unsqueeze(0));
    bits = low(at::bitwise_xor(bits, shifted(bits, 16)) * int64_t{first_factor});
    bits = at::bitwise_xor(bits, low(shifted(key, 32)));
    bits = low(at::bitwise_xor(bits, shifted(bits, 15)) * int64_t{second_factor});
    return at::bitwise_xor(bits, shifted(bits, 16));
}

}  // namespace

at::Tensor kept_elements(const at::Tensor& keys, const DropoutMask& mask, int64_t width) {
    return at::ge(all_bits(keys, mask.salt, width), int64_t{threshold_of(mask.probability)});
}

namespace {

// Calls work(first row, kept elements) for some rows at a time, by LibTorch's operators.
template <class Work>
void for_kept_rows(const at::Tensor& x, const DropoutMask& mask, Work work) {
    constexpr int64_t rows_at_once = 1024;  // the bits of a chunk take 8 bytes an element
    for (int64_t t = 0; t < x.size(0); t += rows_at_once) {
        const int64_t count = std::min(rows_at_once, x.size(0) - t);
        work(t, kept_elements(mask.keys.narrow(0, t, count), mask, x.size(1)));
    }
}

// Returns the rows of x from `first` on with these elements alone.
at::Tensor kept_of(const at::Tensor& x, int64_t first, const at::Tensor& kept,
                   const DropoutMask& mask) {
    return x.narrow(0, first, kept.size(0)) * kept * scale_of(mask);
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const DropoutMask& mask) {
    at::Tensor y = at::empty(x.sizes(), x.options());
    if (x.is_meta()) return y;  // sizes alone, as the host allocates
    if (x.is_cpu())
        drop_on_host<false>(y, x, mask);
    else
        for_kept_rows(x, mask, [&](int64_t first, const at::Tensor& kept) {
            y.narrow(0, first, kept.size(0)).copy_(kept_of(x, first, kept, mask));
        });
    return y;
}

void add_dropout(const at::Tensor& into, const at::Tensor& x, const DropoutMask& mask) {
    if (x.is_meta()) return;
    if (x.is_cpu())
        drop_on_host<true>(into, x, mask);
    else
        for_kept_rows(x, mask, [&](int64_t first, const at::Tensor& kept) {
            into.narrow(0, first, kept.size(0)).add_(kept_of(x, first, kept, mask));
        });
}

void add_noise(const at::Tensor& x, const at::Tensor& keys, uint64_t salt,
               const at::Tensor& bounds) {
    if (x.is_meta()) return;
    constexpr int64_t rows_at_once = 1024;  // the bits of a chunk take 8 bytes an element
    for (int64_t t = 0; t < x.size(0); t += rows_at_once) {
        const int64_t count = std::min(rows_at_once, x.size(0) - t);
        const at::Tensor bits = all_bits(keys.narrow(0, t, count), salt, x.size(1));
        const at::Tensor noise = bits.to(at::kFloat).mul_(0x1p-31).sub_(1);
        x.narrow(0, t, count).add_(noise.mul_(bounds.narrow(0, t, count).unsqueeze(1)));
    }
}

at::Tensor dropout_and_add(const at::Tensor& x, const at::Tensor& into, const at::Tensor& added,
                           const DropoutMask& mask) {
    at::Tensor y = at::empty(x.sizes(), x.options());
    if (x.is_meta()) return y;
    const int64_t width = x.size(1);
    const auto scale = static_cast<float>(scale_of(mask));
    const uint32_t threshold = threshold_of(mask.probability);
    if (x.is_cpu())
        with_type(x, [&]<class T>(T*) {
            for_rows(x, mask, [&](int64_t t, uint64_t key) {
                drop_rows(data<T>(y) + t * width, data<T>(x) + t * x.stride(0),
                          data<T>(into) + t * width, data<T>(added) + t * width, width, key,
                          threshold, scale);
            });
        });
    else
        for_kept_rows(x, mask, [&](int64_t first, const at::Tensor& kept) {
            y.narrow(0, first, kept.size(0)).copy_(kept_of(x, first, kept, mask));
            into.narrow(0, first, kept.size(0)).add_(kept_of(added, first, kept, mask));
        });
    return y;
}

}  // namespace ringshard::ops
