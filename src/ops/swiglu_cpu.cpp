#include <ATen/ops/empty.h>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/swiglu.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

template <class T>
RINGSHARD_SIMD void forward_row(T* __restrict product, const T* __restrict gate,
                                const T* __restrict up, int64_t width) {
    for (int64_t i = 0; i < width; ++i)
        store(product[i], load(gate[i]) * sigmoid(load(gate[i])) * load(up[i]));
}

template <class T>
RINGSHARD_SIMD void backward_row(T* __restrict gate, T* __restrict up, T* __restrict product,
                                 int64_t width) {
    for (int64_t i = 0; i < width; ++i) {
        const float g = load(gate[i]);
        const float u = load(up[i]);
        const float d = load(product[i]);
        const float s = sigmoid(g);
        store(gate[i], d * u * s * (1.0F + g * (1.0F - s)));
        store(up[i], d * g * s);
        store(product[i], g * s * u);
    }
}

template <class T>
RINGSHARD_SIMD void gradient_row(T* __restrict gate, T* __restrict up,
                                 const T* __restrict d_product, int64_t width) {
    for (int64_t i = 0; i < width; ++i) {
        const float g = load(gate[i]);
        const float u = load(up[i]);
        const float d = load(d_product[i]);
        const float s = sigmoid(g);
        store(gate[i], d * u * s * (1.0F + g * (1.0F - s)));
        store(up[i], d * g * s);
    }
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
    const int64_t width = gate_up.size(1) / 2;
    at::Tensor product = at::empty({gate_up.size(0), width}, gate_up.options());
    with_type(gate_up, [&]<class T>(T*) {
        const T* const rows = data<T>(gate_up);
        T* const products = data<T>(product);
        at::parallel_for(0, gate_up.size(0), grain(2 * width), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                const T* row = rows + 2 * t * width;
                forward_row(products + t * width, row, row + width, width);
            }
        });
    });
    return product;
}

void swiglu_backward(const at::Tensor& d_product, const at::Tensor& gate_up, bool makes_product) {
    const int64_t width = gate_up.size(1) / 2;
    with_type(gate_up, [&]<class T>(T*) {
        T* const rows = data<T>(gate_up);
        T* const products = data<T>(d_product);
        at::parallel_for(0, gate_up.size(0), grain(2 * width), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                T* row = rows + 2 * t * width;
                if (makes_product)
                    backward_row(row, row + width, products + t * width, width);
                else
                    gradient_row(row, row + width, products + t * width, width);
            }
        });
    });
}

}  // namespace ringshard::ops::cpu
