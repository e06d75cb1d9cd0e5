#include "ringshard/ops/layer_norm.hpp"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "rows.hpp"

namespace ringshard::ops {

namespace {

struct Normed {
    at::Tensor x;        // fp32, of mean 0 and deviation 1
    at::Tensor inverse;  // [t, 1]: 1 / deviation
};

Normed normalize_rows(const at::Tensor& rows, double epsilon) {
    const at::Tensor x = rows.to(at::kFloat);
    at::Tensor centred = x - x.mean({1}, true);
    const at::Tensor inverse = centred.square().mean({1}, true).add_(epsilon).rsqrt_();
    return {centred.mul_(inverse), inverse};
}

at::Tensor factors(const at::Tensor& x, const LayerNorm& norm) {
    if (!norm.weight.values.defined())
        return at::full({1}, norm.weight.offset, x.options().dtype(at::kFloat));
    return norm.weight.values.to(at::kFloat) + norm.weight.offset;
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const LayerNorm& norm) {
    const at::Tensor& typed = norm.weight.values.defined() ? norm.weight.values : x;
    at::Tensor y = at::empty_like(x, x.options().dtype(typed.scalar_type()));
    const at::Tensor weight = factors(x, norm);
    for_slices(x, int64_t{1} << 20, [&](auto slice) {
        const at::Tensor rows = normalize_rows(slice(x), norm.epsilon).x.mul_(weight);
        if (norm.bias.defined()) rows.add_(norm.bias);
        slice(y).copy_(rows);
    });
    return y;
}

// With n the normed x, g = weight dy: dx = (g - mean(g) - n mean(n g)) / deviation.
void layer_norm_backward(const at::Tensor& dy, const at::Tensor& x, const LayerNorm& norm,
                         const at::Tensor& dx, const at::Tensor& d_weight,
                         const at::Tensor& d_bias) {
    const at::Tensor weight = factors(x, norm);
    for_slices(x, int64_t{1} << 20, [&](auto slice) {
        const Normed normed = normalize_rows(slice(x), norm.epsilon);
        const at::Tensor d = slice(dy).to(at::kFloat);
        if (d_weight.defined()) d_weight.add_((d * normed.x).sum({0}));
        if (d_bias.defined()) d_bias.add_(d.sum({0}));
        at::Tensor gradient = d * weight;
        const at::Tensor common = (gradient * normed.x).mean({1}, true);
        gradient.sub_(gradient.mean({1}, true)).sub_(normed.x * common).mul_(normed.inverse);
        // Copies explicitly: inside add_(), a sum of two types takes memory that no plan counts.
        slice(dx).copy_(gradient.add_(slice(dx).to(at::kFloat)));
    });
}

}  // namespace ringshard::ops
