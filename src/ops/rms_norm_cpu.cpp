#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "ringshard/base/simd.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "rows.hpp"

namespace ringshard::ops {

namespace {

template <class T>
RINGSHARD_SIMD float mean_square(const T* __restrict x, int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += load(x[i]) * load(x[i]);
    return sum / static_cast<float>(width);
}

template <class T>
RINGSHARD_SIMD void scale_row(T* __restrict y, const T* __restrict x, const T* __restrict weight,
                              float inverse_rms, int64_t width) {
    for (int64_t i = 0; i < width; ++i) store(y[i], load(weight[i]) * (load(x[i]) * inverse_rms));
}

// With n = x * r, r = 1 / rms(x): dx = r * (w dy - n * mean(n w dy)), dw = n dy.
template <class T>
RINGSHARD_SIMD void backward_row(T* __restrict dx, float* __restrict d_weight,
                                 const T* __restrict dy, const T* __restrict x,
                                 const T* __restrict weight, float inverse_rms, int64_t width) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i)
        dot += load(x[i]) * inverse_rms * load(weight[i]) * load(dy[i]);
    const float mean = dot / static_cast<float>(width);
    for (int64_t i = 0; i < width; ++i) {
        const float normed = load(x[i]) * inverse_rms;
        d_weight[i] += normed * load(dy[i]);
        store(dx[i], load(dx[i]) + inverse_rms * (load(weight[i]) * load(dy[i]) - normed * mean));
    }
}

// The same, where the gradient is written over dy.
template <class T>
RINGSHARD_SIMD void backward_row_in_place(T* __restrict gradient, float* __restrict d_weight,
                                          const T* __restrict x, const T* __restrict weight,
                                          float inverse_rms, int64_t width) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i)
        dot += load(x[i]) * inverse_rms * load(weight[i]) * load(gradient[i]);
    const float mean = dot / static_cast<float>(width);
    for (int64_t i = 0; i < width; ++i) {
        const float normed = load(x[i]) * inverse_rms;
        const float dy = load(gradient[i]);
        d_weight[i] += normed * dy;
        store(gradient[i], inverse_rms * (load(weight[i]) * dy - normed * mean));
    }
}

RINGSHARD_SIMD void add_row(float* __restrict into, const float* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) into[i] += from[i];
}

}  // namespace

RmsNormed rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    const int64_t tokens = x.size(0);
    const int64_t width = x.size(1);
    RmsNormed out{at::empty_like(x), at::empty({tokens}, x.options().dtype(at::kFloat))};
    with_type(x, [&]<class T>(T*) {
        at::parallel_for(0, tokens, grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                const T* row = data<T>(x) + t * width;
                const float inverse =
                    1.0F / std::sqrt(mean_square(row, width) + static_cast<float>(epsilon));
                data<float>(out.inverse_rms)[t] = inverse;
                scale_row(data<T>(out.y) + t * width, row, data<T>(weight), inverse, width);
            }
        });
    });
    return out;
}

at::Tensor rms_norm_again(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& inverse_rms) {
    const int64_t width = x.size(1);
    at::Tensor y = at::empty_like(x);
    with_type(x, [&]<class T>(T*) {
        at::parallel_for(0, x.size(0), grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t)
                scale_row(data<T>(y) + t * width, data<T>(x) + t * width, data<T>(weight),
                          data<float>(inverse_rms)[t], width);
        });
    });
    return y;
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const at::Tensor& weight, const at::Tensor& dx, const at::Tensor& d_weight) {
    const int64_t tokens = x.size(0);
    const int64_t width = x.size(1);
    const int64_t num_threads = at::get_num_threads();
    const at::Tensor partial = at::zeros({num_threads, width}, x.options().dtype(at::kFloat));
    with_type(x, [&]<class T>(T*) {
        at::parallel_for(0, num_threads, 1, [&](int64_t first, int64_t last) {
            for (int64_t thread = first; thread < last; ++thread) {
                const RowRange rows = range_of_thread(thread, num_threads, tokens);
                for (int64_t t = rows.begin; t < rows.end; ++t)
                    backward_row(data<T>(dx) + t * width, data<float>(partial) + thread * width,
                                 data<T>(dy) + t * width, data<T>(x) + t * width, data<T>(weight),
                                 data<float>(inverse_rms)[t], width);
            }
        });
    });
    for (int64_t thread = 0; thread < num_threads; ++thread)
        add_row(data<float>(d_weight), data<float>(partial) + thread * width, width);
}

HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const at::Tensor& weight,
                          double epsilon) {
    const int64_t tokens = rows.size(0);
    const int64_t row = rows.size(1);
    const int64_t width = weight.size(0);
    RINGSHARD_CHECK((heads.first + heads.count) * width <= row);
    HeadsBeforeNorm before{at::empty({tokens, heads.count, width}, rows.options()),
                           at::empty({tokens, heads.count}, rows.options().dtype(at::kFloat))};
    with_type(rows, [&]<class T>(T*) {
        at::parallel_for(0, tokens, grain(heads.count * width), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin * heads.count; i < end * heads.count; ++i) {
                const int64_t head = heads.first + i % heads.count;
                T* const y = data<T>(rows) + i / heads.count * row + head * width;
                T* const x = data<T>(before.x) + i * width;
                std::copy_n(y, width, x);
                const float inverse =
                    1.0F / std::sqrt(mean_square(x, width) + static_cast<float>(epsilon));
                data<float>(before.inverse_rms)[i] = inverse;
                scale_row(y, x, data<T>(weight), inverse, width);
            }
        });
    });
    return before;
}

void head_norm_backward(const at::Tensor& d_rows, HeadRange heads, const HeadsBeforeNorm& before,
                        const at::Tensor& weight, const at::Tensor& d_weight) {
    const int64_t tokens = d_rows.size(0);
    const int64_t row = d_rows.size(1);
    const int64_t width = weight.size(0);
    RINGSHARD_CHECK((heads.first + heads.count) * width <= row);
    const int64_t num_threads = at::get_num_threads();
    const at::Tensor partial = at::zeros({num_threads, width}, d_rows.options().dtype(at::kFloat));
    with_type(d_rows, [&]<class T>(T*) {
        at::parallel_for(0, num_threads, 1, [&](int64_t first, int64_t last) {
            for (int64_t thread = first; thread < last; ++thread) {
                const RowRange mine = range_of_thread(thread, num_threads, tokens);
                for (int64_t i = mine.begin * heads.count; i < mine.end * heads.count; ++i) {
                    const int64_t head = heads.first + i % heads.count;
                    backward_row_in_place(data<T>(d_rows) + i / heads.count * row + head * width,
                                          data<float>(partial) + thread * width,
                                          data<T>(before.x) + i * width, data<T>(weight),
                                          data<float>(before.inverse_rms)[i], width);
                }
            }
        });
    });
    for (int64_t thread = 0; thread < num_threads; ++thread)
        add_row(data<float>(d_weight), data<float>(partial) + thread * width, width);
}

}  // namespace ringshard::ops
