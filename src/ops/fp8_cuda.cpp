#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include "backends.hpp"
#include "gpu/fp8_kernels.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

namespace {

// A matrix whose rows have scales, or all of it one.
struct Fp8Matrix {
    at::Tensor codes;
    at::Tensor factors;  // [rows, 1], or [1, 1]
};

at::ScalarType scalar_type_of(Fp8Format format) {
    return format == Fp8Format::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
}

gpu::Fp8Type fp8_type_of(Fp8Format format) {
    return format == Fp8Format::e4m3 ? gpu::Fp8Type::e4m3 : gpu::Fp8Type::e5m2;
}

Fp8Matrix empty_matrix(int64_t rows, int64_t columns, int64_t factors, const at::Tensor& like,
                       Fp8Format format) {
    return {at::empty({rows, columns}, like.options().dtype(scalar_type_of(format))),
            at::empty({factors, 1}, like.options().dtype(at::kFloat))};
}

Fp8Matrix rows_in_fp8(const at::Tensor& matrix, Fp8Format format) {
    const at::Tensor x = matrix.contiguous();
    Fp8Matrix result = empty_matrix(x.size(0), x.size(1), x.size(0), x, format);
    gpu::quantize_rows(gpu::queue_of(x), {.type = gpu::type_of(x),
                                          .into_type = fp8_type_of(format),
                                          .x = gpu::data(x),
                                          .codes = gpu::data<uint8_t>(result.codes),
                                          .factors = gpu::data<float>(result.factors),
                                          .rows = x.size(0),
                                          .width = x.size(1)});
    return result;
}

// Columns become rows.
Fp8Matrix columns_in_fp8(const at::Tensor& matrix, Fp8Format format) {
    const at::Tensor x = matrix.contiguous();
    RINGSHARD_CHECK(fits_fp8(x.size(0), x.size(1)));
    Fp8Matrix result = empty_matrix(x.size(1), x.size(0), x.size(1), x, format);
    const at::Tensor largest = at::zeros({x.size(1)}, x.options().dtype(at::kInt));
    gpu::quantize_columns(gpu::queue_of(x), {.type = gpu::type_of(x),
                                             .into_type = fp8_type_of(format),
                                             .x = gpu::data(x),
                                             .codes = gpu::data<uint8_t>(result.codes),
                                             .factors = gpu::data<float>(result.factors),
                                             .largest = gpu::data<uint32_t>(largest),
                                             .rows = x.size(0),
                                             .width = x.size(1)});
    return result;
}

// Raises maximum [1] to the largest magnitude of the first rows.
void raise_to_rows(const at::Tensor& maximum, const at::Tensor& x, int64_t rows) {
    gpu::raise_maximum(gpu::queue_of(x), {.type = gpu::type_of(x),
                                          .x = gpu::data(x),
                                          .maximum = gpu::data<uint32_t>(maximum),
                                          .count = rows * x.size(1)});
}

at::Tensor largest_of(const at::Tensor& x) {
    const at::Tensor largest = at::zeros({1}, x.options().dtype(at::kInt));
    raise_to_rows(largest, x, x.size(0));
    return largest;
}

template <class Number>
Number* data_if_any(const at::Tensor& tensor) {
    return tensor.defined() ? gpu::data<Number>(tensor) : nullptr;
}

Fp8Matrix tensor_in_fp8(const at::Tensor& matrix, Fp8Format format, const DelayedScale& delayed) {
    const at::Tensor x = matrix.contiguous();
    const at::Tensor largest = delayed.exponent.defined() ? at::Tensor() : largest_of(x);
    Fp8Matrix result = empty_matrix(x.size(0), x.size(1), 1, x, format);
    gpu::quantize_tensor(gpu::queue_of(x), {.type = gpu::type_of(x),
                                            .into_type = fp8_type_of(format),
                                            .x = gpu::data(x),
                                            .codes = gpu::data<uint8_t>(result.codes),
                                            .factor = gpu::data<float>(result.factors),
                                            .largest = data_if_any<uint32_t>(largest),
                                            .exponent = data_if_any<int32_t>(delayed.exponent),
                                            .maximum = data_if_any<uint32_t>(delayed.maximum),
                                            .count = x.numel(),
                                            .counted = delayed.counted * x.size(1)});
    return result;
}

// Columns become rows, with one scale.
Fp8Matrix turned_tensor_in_fp8(const at::Tensor& matrix, Fp8Format format) {
    const at::Tensor x = matrix.contiguous();
    RINGSHARD_CHECK(fits_fp8(x.size(0), x.size(1)));
    const at::Tensor largest = largest_of(x);
    Fp8Matrix result = empty_matrix(x.size(1), x.size(0), 1, x, format);
    gpu::quantize_columns_alike(gpu::queue_of(x), {.type = gpu::type_of(x),
                                                   .into_type = fp8_type_of(format),
                                                   .x = gpu::data(x),
                                                   .codes = gpu::data<uint8_t>(result.codes),
                                                   .factors = gpu::data<float>(result.factors),
                                                   .largest = gpu::data<uint32_t>(largest),
                                                   .rows = x.size(0),
                                                   .width = x.size(1)});
    return result;
}

// A factor x or dy.
Fp8Matrix factor_in_fp8(const at::Tensor& x, Fp8Format format, Fp8Scales scales,
                        const DelayedScale& delayed) {
    if (scales == Fp8Scales::of_tensor) return tensor_in_fp8(x, format, delayed);
    if (delayed.maximum.defined()) raise_to_rows(delayed.maximum, x.contiguous(), delayed.counted);
    return rows_in_fp8(x, format);
}

at::Tensor numbers_of(const Fp8Matrix& matrix, at::ScalarType type) {
    return at::mul(matrix.codes.to(at::kFloat), matrix.factors).to(type);
}

// a b^T + bias.
at::Tensor product(const Gemms& gemms, const Fp8Matrix& a, const Fp8Matrix& b,
                   const at::Tensor& bias) {
    if (!a.codes.is_cuda())  // without a GPU there is no kernel to walk through
        return cpu::linear(gemms, numbers_of(a, at::kBFloat16), numbers_of(b, at::kBFloat16), bias);
    if (a.codes.size(0) == 0)
        return at::empty({0, b.codes.size(0)}, a.factors.options().dtype(at::kBFloat16));
    // On Hopper such sums have 14 bits.
    constexpr bool use_fast_accumulation = false;
    return at::_scaled_mm(a.codes, b.codes.t(), a.factors, b.factors.t(),
                          bias.defined() ? std::optional(bias) : std::nullopt, std::nullopt,
                          at::kBFloat16, use_fast_accumulation);
}

}  // namespace

at::Tensor round_to_fp8(const at::Tensor& x, Fp8Format format, Fp8Scales scales,
                        const DelayedScale& delayed) {
    if (scales != Fp8Scales::of_columns)
        return numbers_of(factor_in_fp8(x, format, scales, delayed), x.scalar_type());
    return numbers_of(columns_in_fp8(x, format), x.scalar_type()).t();
}

at::Tensor fp8_linear(const Gemms& gemms, const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias, Fp8Scales scales, const DelayedScale& delayed) {
    return product(gemms, factor_in_fp8(x, Fp8Format::e4m3, scales, delayed),
                   factor_in_fp8(weight, Fp8Format::e4m3, scales, {}), bias);
}

at::Tensor fp8_linear_backward_input(const Gemms& gemms, const at::Tensor& dy,
                                     const at::Tensor& weight, Fp8Format format, Fp8Scales scales,
                                     const DelayedScale& delayed) {
    const auto turn = scales == Fp8Scales::of_tensor ? turned_tensor_in_fp8 : columns_in_fp8;
    return product(gemms, factor_in_fp8(dy, format, scales, delayed), turn(weight, Fp8Format::e4m3),
                   {});
}

}  // namespace ringshard::ops::cuda
