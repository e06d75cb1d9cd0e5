#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "backends.hpp"
#include "ringshard/base/simd.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "rows.hpp"

namespace ringshard::ops::cpu {

namespace {

template <class T>
RINGSHARD_SIMD float mean_square(const T* __restrict x, int64_t width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; ++i) sum += load(x[i]) * load(x[i]);
    return sum / static_cast<float>(width);
}

// Types: T of the weight and of the normed rows, Wide of the rows before.
template <class T, class Wide>
RINGSHARD_SIMD void scale_row(T* __restrict y, const Wide* __restrict x, const T* __restrict weight,
                              float offset, float inverse_rms, int64_t width) {
    for (int64_t i = 0; i < width; ++i)
        store(y[i], (load(weight[i]) + offset) * (load(x[i]) * inverse_rms));
}

template <class T>
RINGSHARD_SIMD void add_input_row(T* __restrict branch, const T* __restrict x, int64_t width) {
    for (int64_t i = 0; i < width; ++i) store(branch[i], load(branch[i]) + load(x[i]));
}

// With n = x * r, r = 1 / rms(x): dx = r * (w dy - n * mean(n w dy)), dw = n dy.
template <class T, class Wide>
RINGSHARD_SIMD void backward_row(Wide* __restrict dx, float* __restrict d_weight,
                                 const T* __restrict dy, const Wide* __restrict x,
                                 const T* __restrict weight, float offset, float inverse_rms,
                                 int64_t width) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i)
        dot += load(x[i]) * inverse_rms * (load(weight[i]) + offset) * load(dy[i]);
    const float mean = dot / static_cast<float>(width);
    for (int64_t i = 0; i < width; ++i) {
        const float normed = load(x[i]) * inverse_rms;
        d_weight[i] += normed * load(dy[i]);
        store(dx[i], load(dx[i]) +
                         inverse_rms * ((load(weight[i]) + offset) * load(dy[i]) - normed * mean));
    }
}

// The same, where the gradient is written over dy.
template <class T>
RINGSHARD_SIMD void backward_row_in_place(T* __restrict gradient, float* __restrict d_weight,
                                          const T* __restrict x, const T* __restrict weight,
                                          float offset, float inverse_rms, int64_t width) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i)
        dot += load(x[i]) * inverse_rms * (load(weight[i]) + offset) * load(gradient[i]);
    const float mean = dot / static_cast<float>(width);
    for (int64_t i = 0; i < width; ++i) {
        const float normed = load(x[i]) * inverse_rms;
        const float dy = load(gradient[i]);
        d_weight[i] += normed * dy;
        store(gradient[i], inverse_rms * ((load(weight[i]) + offset) * dy - normed * mean));
    }
}

RINGSHARD_SIMD void add_sums(float* __restrict into, const float* __restrict from, int64_t width) {
    for (int64_t i = 0; i < width; ++i) into[i] += from[i];
}

// into [w] += every row of partial [threads, w], in order.
void add_rows(const at::Tensor& into, const at::Tensor& partial) {
    for (int64_t row = 0; row < partial.size(0); ++row)
        add_sums(data<float>(into), data<float>(partial) + row * partial.size(1), partial.size(1));
}

}  // namespace

namespace {

// Calls `work` with null pointers of the types of the weight and of the rows, which are those of a
// stream in fp32 or have the type of the weight.
template <class Work>
void with_types(const NormWeight& weight, const at::Tensor& x, Work work) {
    with_type(weight.values, [&]<class T>(T* type) {
        if (x.scalar_type() == at::kFloat) return work(type, static_cast<float*>(nullptr));
        RINGSHARD_CHECK(x.scalar_type() == weight.values.scalar_type());
        work(type, type);
    });
}

// Calls `prepare` with the number of each row before it is read.
template <class Prepare>
RmsNormed normalize(const at::Tensor& x, const NormWeight& weight, double epsilon,
                    Prepare prepare) {
    const int64_t tokens = x.size(0);
    const int64_t width = x.size(1);
    RmsNormed out{at::empty(x.sizes(), weight.values.options()),
                  at::empty({tokens}, x.options().dtype(at::kFloat))};
    with_types(weight, x, [&]<class T, class Wide>(T*, Wide*) {
        const Wide* const all_x = data<Wide>(x);
        const T* const w = data<T>(weight.values);
        T* const all_y = data<T>(out.y);
        float* const all_inverse = data<float>(out.inverse_rms);
        at::parallel_for(0, tokens, grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) {
                const Wide* row = all_x + t * width;
                prepare(t);
                const float inverse =
                    1.0F / std::sqrt(mean_square(row, width) + static_cast<float>(epsilon));
                all_inverse[t] = inverse;
                scale_row(all_y + t * width, row, w, weight.offset, inverse, width);
            }
        });
    });
    return out;
}

}  // namespace

RmsNormed rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon) {
    return normalize(x, weight, epsilon, [](int64_t) {});
}

RmsNormed add_rms_norm(const at::Tensor& branch, double factor, const at::Tensor& x,
                       const NormWeight& weight, double epsilon) {
    if (factor != 1) branch.mul_(factor);
    const int64_t width = x.size(1);
    RmsNormed out;
    with_type(x, [&]<class T>(T*) {
        T* const all_branch = data<T>(branch);
        const T* const all_x = data<T>(x);
        out = normalize(branch, weight, epsilon, [&](int64_t t) {
            add_input_row(all_branch + t * width, all_x + t * width, width);
        });
    });
    return out;
}

at::Tensor rms_norm_again(const at::Tensor& x, const NormWeight& weight,
                          const at::Tensor& inverse_rms) {
    const int64_t width = x.size(1);
    at::Tensor y = at::empty(x.sizes(), weight.values.options());
    with_types(weight, x, [&]<class T, class Wide>(T*, Wide*) {
        const Wide* const all_x = data<Wide>(x);
        const T* const w = data<T>(weight.values);
        T* const all_y = data<T>(y);
        const float* const inverse = data<float>(inverse_rms);
        at::parallel_for(0, x.size(0), grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t)
                scale_row(all_y + t * width, all_x + t * width, w, weight.offset, inverse[t],
                          width);
        });
    });
    return y;
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const NormWeight& weight, const at::Tensor& dx, const at::Tensor& d_weight,
                       bool makes_normed) {
    const int64_t tokens = x.size(0);
    const int64_t width = x.size(1);
    const int64_t num_threads = at::get_num_threads();
    const at::Tensor partial = at::zeros({num_threads, width}, x.options().dtype(at::kFloat));
    with_types(weight, x, [&]<class T, class Wide>(T*, Wide*) {
        Wide* const all_dx = data<Wide>(dx);
        T* const all_dy = data<T>(dy);
        const Wide* const all_x = data<Wide>(x);
        const T* const w = data<T>(weight.values);
        const float* const inverse = data<float>(inverse_rms);
        float* const sums = data<float>(partial);
        at::parallel_for(0, num_threads, 1, [&](int64_t first, int64_t last) {
            for (int64_t thread = first; thread < last; ++thread) {
                const RowRange rows = range_of_thread(thread, num_threads, tokens);
                for (int64_t t = rows.begin; t < rows.end; ++t) {
                    const Wide* const row = all_x + t * width;
                    T* const of_dy = all_dy + t * width;
                    backward_row(all_dx + t * width, sums + thread * width, of_dy, row, w,
                                 weight.offset, inverse[t], width);
                    if (makes_normed) scale_row(of_dy, row, w, weight.offset, inverse[t], width);
                }
            }
        });
    });
    add_rows(d_weight, partial);
}

namespace {

// Where the heads of a range lie: head i of all heads of all tokens.
struct HeadPlaces {
    HeadPlaces(const at::Tensor& rows, HeadRange heads, const NormWeight& weight)
        : row(rows.size(1)), width(weight.values.size(0)), first(heads.first), count(heads.count) {
        RINGSHARD_CHECK((first + count) * width <= row);
    }
    int64_t operator()(int64_t i) const { return i / count * row + (first + i % count) * width; }

    int64_t row;
    int64_t width;
    int64_t first;
    int64_t count;
};

}  // namespace

HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const NormWeight& weight,
                          double epsilon) {
    const int64_t tokens = rows.size(0);
    const HeadPlaces place(rows, heads, weight);
    const int64_t width = place.width;
    HeadsBeforeNorm before{at::empty({tokens, heads.count, width}, rows.options()),
                           at::empty({tokens, heads.count}, rows.options().dtype(at::kFloat))};
    with_type(rows, [&]<class T>(T*) {
        T* const all_y = data<T>(rows);
        T* const all_x = data<T>(before.x);
        float* const inverse = data<float>(before.inverse_rms);
        const T* const w = data<T>(weight.values);
        at::parallel_for(0, tokens * heads.count, grain(width), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                T* const y = all_y + place(i);
                T* const x = all_x + i * width;
                std::copy_n(y, width, x);
                inverse[i] = 1.0F / std::sqrt(mean_square(x, width) + static_cast<float>(epsilon));
                scale_row(y, x, w, weight.offset, inverse[i], width);
            }
        });
    });
    return before;
}

void head_norm_backward(const at::Tensor& d_rows, HeadRange heads, const HeadsBeforeNorm& before,
                        const NormWeight& weight, const at::Tensor& d_weight) {
    const HeadPlaces place(d_rows, heads, weight);
    const int64_t width = place.width;
    const int64_t num_heads = d_rows.size(0) * heads.count;
    const int64_t num_threads = at::get_num_threads();
    const at::Tensor partial = at::zeros({num_threads, width}, d_rows.options().dtype(at::kFloat));
    with_type(d_rows, [&]<class T>(T*) {
        T* const gradient = data<T>(d_rows);
        const T* const x = data<T>(before.x);
        const float* const inverse = data<float>(before.inverse_rms);
        const T* const w = data<T>(weight.values);
        at::parallel_for(0, num_threads, 1, [&](int64_t first, int64_t last) {
            for (int64_t thread = first; thread < last; ++thread) {
                float* const sums = data<float>(partial) + thread * width;
                const RowRange mine = range_of_thread(thread, num_threads, num_heads);
                for (int64_t i = mine.begin; i < mine.end; ++i)
                    backward_row_in_place(gradient + place(i), sums, x + i * width, w,
                                          weight.offset, inverse[i], width);
            }
        });
    });
    add_rows(d_weight, partial);
}

}  // namespace ringshard::ops::cpu
