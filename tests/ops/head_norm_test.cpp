// The norm of single heads against autograd in double precision.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/ops/rms_norm.hpp"

using namespace ringshard;

namespace {

constexpr double epsilon = 1e-6;

double distance(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor wide = b.to(at::kDouble);
    return ((a.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

struct Shape {
    int64_t tokens, heads, first, count, width;
    float offset = 0;
};

struct Reference {
    at::Tensor y, d_rows, d_weight;
};

// The plain form: written as it is defined, differentiated by autograd.
Reference plain(const Shape& shape, const at::Tensor& rows, const at::Tensor& weight,
                const at::Tensor& dy) {
    const at::Tensor x = rows.to(at::kDouble).set_requires_grad(true);
    const at::Tensor w = weight.to(at::kDouble).set_requires_grad(true);
    const at::Tensor all = x.view({shape.tokens, shape.heads, shape.width});
    const at::Tensor some = all.narrow(1, shape.first, shape.count);
    const at::Tensor normed =
        (w + shape.offset) * some * (some.square().mean(-1, true) + epsilon).rsqrt();
    const int64_t after = shape.first + shape.count;
    const at::Tensor y =
        at::cat({all.narrow(1, 0, shape.first), normed, all.narrow(1, after, shape.heads - after)},
                1)
            .view(rows.sizes());
    (y * dy.to(at::kDouble)).sum().backward();
    return {y.detach(), x.grad(), w.grad()};
}

void check(const Shape& shape, at::ScalarType type, double tolerance) {
    const auto options = at::TensorOptions(type);
    const at::Tensor rows = at::randn({shape.tokens, shape.heads * shape.width}, options);
    const at::Tensor weight = at::randn({shape.width}, options);
    const at::Tensor dy = at::randn_like(rows);
    const Reference reference = plain(shape, rows, weight, dy);

    const ops::HeadRange range{shape.first, shape.count};
    const ops::HeadsBeforeNorm before =
        ops::head_norm(rows, range, {weight, shape.offset}, epsilon);
    BOOST_TEST(distance(rows, reference.y) < tolerance);
    const at::Tensor d_weight = at::ones({shape.width});
    ops::head_norm_backward(dy, range, before, {weight, shape.offset}, d_weight);
    BOOST_TEST(distance(dy, reference.d_rows) < tolerance);
    BOOST_TEST(distance(d_weight - 1, reference.d_weight) < tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(heads_are_normed_as_autograd_says) {
    at::manual_seed(3);
    for (const Shape& shape :
         {Shape{1, 1, 0, 1, 2}, Shape{5, 4, 0, 2, 16}, Shape{37, 8, 4, 3, 24},
          Shape{300, 6, 5, 1, 128}, Shape{37, 8, 4, 3, 24, 1},
          // All heads of a token together, and wide ones: teams of all sizes.
          Shape{9, 3, 1, 2, 320}, Shape{5, 3, 1, 1, 520}, Shape{3, 2, 0, 1, 1100},
          Shape{140, 3, 0, 1, 2056}, Shape{3, 3, 1, 1, 4099}, Shape{2, 2, 1, 1, 8192},
          Shape{2, 1, 0, 1, 16384, 1}}) {
        check(shape, at::kFloat, 1e-6);
        check(shape, at::kBFloat16, 1e-2);
    }
}
