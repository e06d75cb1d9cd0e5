#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "backends.hpp"
#include "gpu/tensors.hpp"

namespace ringshard::ops::cuda {

using namespace gpu;

namespace {

gpu::RmsNorm work_of(const at::Tensor& x, const NormWeight& weight, const at::Tensor& y,
                     const at::Tensor& inverse_rms) {
    return {.type = type_of(x),
            .x = data(x),
            .weight = data(weight.values),
            .y = data(y),
            .inverse_rms = data<float>(inverse_rms),
            .rows = x.size(0),
            .width = x.size(1),
            .epsilon = 0,
            .offset = weight.offset};
}

}  // namespace

RmsNormed rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon) {
    RmsNormed out{at::empty_like(x), at::empty({x.size(0)}, x.options().dtype(at::kFloat))};
    gpu::RmsNorm work = work_of(x, weight, out.y, out.inverse_rms);
    work.epsilon = static_cast<float>(epsilon);
    gpu::rms_norm(queue_of(x), work);
    return out;
}

RmsNormed add_rms_norm(const at::Tensor& branch, double factor, const at::Tensor& x,
                       const NormWeight& weight, double epsilon) {
    RmsNormed out{at::empty_like(x), at::empty({x.size(0)}, x.options().dtype(at::kFloat))};
    gpu::RmsNorm work = work_of(x, weight, out.y, out.inverse_rms);
    work.epsilon = static_cast<float>(epsilon);
    work.branch = data(branch);
    work.factor = static_cast<float>(factor);
    gpu::rms_norm(queue_of(x), work);
    return out;
}

at::Tensor rms_norm_again(const at::Tensor& x, const NormWeight& weight,
                          const at::Tensor& inverse_rms) {
    at::Tensor y = at::empty_like(x);
    gpu::rms_norm_again(queue_of(x), work_of(x, weight, y, inverse_rms));
    return y;
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverse_rms,
                       const NormWeight& weight, const at::Tensor& dx, const at::Tensor& d_weight,
                       bool makes_normed) {
    const int64_t rows = x.size(0);
    const int64_t width = x.size(1);
    const at::Tensor of_ranges =
        at::empty({num_row_ranges(rows, width), width}, x.options().dtype(at::kFloat));
    const Queue queue = queue_of(x);
    gpu::rms_norm_backward(queue, {.type = type_of(x),
                                   .dy = data(dy),
                                   .x = data(x),
                                   .weight = data(weight.values),
                                   .inverse_rms = data<float>(inverse_rms),
                                   .dx = data(dx),
                                   .d_weight = data<float>(of_ranges),
                                   .rows = rows,
                                   .width = width,
                                   .offset = weight.offset,
                                   .makes_normed = makes_normed});
    add_rows(queue, data<float>(d_weight), data<float>(of_ranges), of_ranges.size(0), width);
}

namespace {

gpu::HeadNorm work_of(const at::Tensor& rows, HeadRange heads, const HeadsBeforeNorm& before,
                      const NormWeight& weight) {
    const int64_t width = weight.values.size(0);
    RINGSHARD_CHECK((heads.first + heads.count) * width <= rows.size(1));
    return {.type = type_of(rows),
            .heads = data<char>(rows) + heads.first * width * rows.element_size(),
            .before = data(before.x),
            .weight = data(weight.values),
            .inverse_rms = data<float>(before.inverse_rms),
            .d_weight = nullptr,
            .tokens = rows.size(0),
            .count = heads.count,
            .width = width,
            .row = rows.size(1),
            .epsilon = 0,
            .offset = weight.offset};
}

}  // namespace

HeadsBeforeNorm head_norm(const at::Tensor& rows, HeadRange heads, const NormWeight& weight,
                          double epsilon) {
    HeadsBeforeNorm before{
        at::empty({rows.size(0), heads.count, weight.values.size(0)}, rows.options()),
        at::empty({rows.size(0), heads.count}, rows.options().dtype(at::kFloat))};
    gpu::HeadNorm work = work_of(rows, heads, before, weight);
    work.epsilon = static_cast<float>(epsilon);
    gpu::head_norm(queue_of(rows), work);
    return before;
}

void head_norm_backward(const at::Tensor& d_rows, HeadRange heads, const HeadsBeforeNorm& before,
                        const NormWeight& weight, const at::Tensor& d_weight) {
    gpu::HeadNorm work = work_of(d_rows, heads, before, weight);
    const at::Tensor of_ranges =
        at::empty({num_head_ranges(work.tokens * work.count, work.width), work.width},
                  d_rows.options().dtype(at::kFloat));
    work.d_weight = data<float>(of_ranges);
    const Queue queue = queue_of(d_rows);
    gpu::head_norm_backward(queue, work);
    add_rows(queue, data<float>(d_weight), work.d_weight, of_ranges.size(0), work.width);
}

}  // namespace ringshard::ops::cuda
