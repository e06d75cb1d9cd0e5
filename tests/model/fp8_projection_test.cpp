// A projection with products in FP8: every gradient against PyTorch's casts
// (parity/generator/fp8.py).
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "golden.hpp"
#include "parts/projection.hpp"

using namespace ringshard;
using namespace ringshard::model;
using ops::Fp8Format;

namespace {

struct Layer {
    at::Tensor y;
    at::Tensor dx;
    at::Tensor d_weight;
    at::Tensor d_bias;
};

shard::UnitTensors tensors_of(const shard::FlatUnit& unit, const at::Tensor& flat) {
    std::vector<shard::UnitTensors::Part> parts;
    parts.push_back({&unit, flat});
    return shard::UnitTensors(parts);
}

// A projection of one layer, forward and backward.
class Run {
public:
    Run(const at::Tensor& weight, const at::Tensor& bias)
        : projection_(
              layout_,
              {.layers = {{"layer", weight.size(0)}}, .in = weight.size(1), .has_bias = true}),
          unit_(layout_.finish(1).front()),
          weights_(at::zeros({unit_.size()}, at::kBFloat16)) {
        tensors_of(unit_, weights_)[projection_.weight()].copy_(weight);
        for (const shard::PlacedTensor& tensor : unit_.tensors())
            if (tensor.spec.name == "layer.bias")
                weights_.narrow(0, tensor.offset, tensor.size).copy_(bias);
    }

    Layer compute(const ProjectionContext& context, const at::Tensor& x,
                  const at::Tensor& dy) const {
        const at::Tensor sums = at::zeros({unit_.size()});
        const shard::UnitTensors weights = tensors_of(unit_, weights_);
        const shard::UnitTensors gradients = tensors_of(unit_, sums);
        Layer layer{.y = projection_.forward(context, weights, x),
                    .dx = projection_.backward(context, weights, gradients, dy, x),
                    .d_weight = gradients[projection_.weight()],
                    .d_bias = projection_.bias_gradient(gradients)};
        BOOST_TEST(layer.dx.equal(projection_.backward_input(context, weights, dy)));
        return layer;
    }

private:
    shard::UnitLayout layout_{"block"};
    Projection projection_;
    shard::FlatUnit unit_;
    at::Tensor weights_;
};

// Of the row that differs most: rows are of very different sizes.
double distance(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor exact = b.to(at::kDouble);
    return ((a.to(at::kDouble) - exact).norm(2, 1) / exact.norm(2, 1).clamp_min(1e-100))
        .max()
        .item<double>();
}

ProjectionContext context_of(const ops::Gemms& gemms, std::optional<Fp8Format> format,
                             int64_t most_elements = int64_t{1} << 30) {
    ProjectionContext context{.gemms = gemms, .most_elements = most_elements};
    if (format) context.fp8 = Fp8Context{.options = {.gradients = *format}};
    return context;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_gradient_is_that_of_rounded_factors) {
    const auto of = test::read_golden(test::golden_folder() / "fp8" / "products.safetensors");
    const ops::Gemms gemms = ops::Gemms::open().value();
    const Run run(of.at("weight"), of.at("bias"));
    constexpr double rounding = 4e-3;  // of bf16: 2^-8
    for (const auto& [format, dx] :
         {std::pair{Fp8Format::e4m3, "dx_e4m3"}, std::pair{Fp8Format::e5m2, "dx_e5m2"}}) {
        const Layer layer = run.compute(context_of(gemms, format), of.at("x"), of.at("dy"));
        BOOST_TEST(distance(layer.y, of.at("y")) < rounding);
        BOOST_TEST(distance(layer.dx, of.at(dx)) < rounding);
        // Of factors in bf16; rows of 1e20 are left out.
        const at::Tensor x_part = of.at("x").narrow(0, 8, 32);
        const at::Tensor dy_part = of.at("dy").narrow(0, 8, 32);
        const Layer part = run.compute(context_of(gemms, format), x_part, dy_part);
        const at::Tensor dy = dy_part.to(at::kDouble);
        BOOST_TEST(distance(part.d_weight, dy.t().matmul(x_part.to(at::kDouble))) < rounding);
        BOOST_TEST(distance(part.d_bias.unsqueeze(0), dy.sum(0, true)) < rounding);
    }
    const Layer in_bf16 = run.compute(context_of(gemms, {}), of.at("x"), of.at("dy"));
    BOOST_TEST(distance(in_bf16.y, of.at("y")) > 3 * rounding);
}

BOOST_AUTO_TEST_CASE(chunks_of_tokens_are_the_same) {
    const auto of = test::read_golden(test::golden_folder() / "fp8" / "products.safetensors");
    const ops::Gemms gemms = ops::Gemms::open().value();
    const Run run(of.at("weight"), of.at("bias"));
    const Layer whole = run.compute(context_of(gemms, Fp8Format::e4m3), of.at("x"), of.at("dy"));
    const Layer parts =
        run.compute(context_of(gemms, Fp8Format::e4m3, 7 * int64_t{112}), of.at("x"), of.at("dy"));
    BOOST_TEST(distance(parts.y, whole.y) < 1e-3);
    BOOST_TEST(distance(parts.dx, whole.dx) < 1e-3);
}

BOOST_AUTO_TEST_CASE(weights_of_other_sizes_stay_in_bf16) {
    const ops::Gemms gemms = ops::Gemms::open().value();
    const auto numbers = [](int64_t rows, int64_t width) {
        return at::randn({rows, width}).to(at::kBFloat16);
    };
    for (const auto& [out, in] : {std::pair{40, 64}, std::pair{64, 40}}) {
        const Run run(numbers(out, in), numbers(1, out)[0]);
        const at::Tensor x = numbers(9, in);
        const at::Tensor dy = numbers(9, out);
        const Layer in_fp8 = run.compute(context_of(gemms, Fp8Format::e4m3), x, dy);
        const Layer in_bf16 = run.compute(context_of(gemms, {}), x, dy);
        BOOST_TEST(in_fp8.y.equal(in_bf16.y));
        BOOST_TEST(in_fp8.dx.equal(in_bf16.dx));
        BOOST_TEST(in_fp8.d_weight.equal(in_bf16.d_weight));
    }
}
