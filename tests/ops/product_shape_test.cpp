// What cuBLASLt is told of a product, taken by its word: matrices that go by columns.
#include "product_shape.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>

using namespace ringshard;
using ops::GpuProduct;
using ops::MatrixLayout;

namespace {

// The number in this row and column, of a matrix that begins at `numbers`.
float& number(const at::Tensor& tensor, const MatrixLayout& layout, int64_t row, int64_t column) {
    BOOST_REQUIRE((row < layout.rows && column < layout.columns));
    return static_cast<float*>(tensor.data_ptr())[column * layout.stride + row];
}

// As cublasLtMatmul(left, right, addend, result) has it.
void multiply(const GpuProduct& product) {
    const ops::ProductShape shape = ops::shape_of(product, 0);
    const int64_t terms = shape.turns_left ? shape.left.rows : shape.left.columns;
    BOOST_REQUIRE(terms == (shape.turns_right ? shape.right.columns : shape.right.rows));
    for (int64_t row = 0; row < shape.result.rows; ++row)
        for (int64_t column = 0; column < shape.result.columns; ++column) {
            float sum = 0;
            for (int64_t k = 0; k < terms; ++k)
                sum += (shape.turns_left ? number(product.b, shape.left, k, row)
                                         : number(product.b, shape.left, row, k)) *
                       (shape.turns_right ? number(product.a, shape.right, column, k)
                                          : number(product.a, shape.right, k, column));
            if (shape.has_addend)
                sum += product.share_of_addend * number(product.addend, shape.addend, row, column);
            if (shape.has_bias) sum += product.bias[row].item<float>();
            number(product.result, shape.result, row, column) = sum;
        }
}

at::Tensor numbers(at::IntArrayRef sizes) { return at::randn(sizes); }

}  // namespace

BOOST_AUTO_TEST_CASE(every_product_of_a_layer) {
    const c10::InferenceMode no_autograd;
    for (const auto& [tokens, out, in] :
         {std::array<int64_t, 3>{5, 7, 3}, {1, 4, 6}, {6, 1, 4}, {4, 6, 1}, {1, 1, 1}}) {
        const at::Tensor x = numbers({tokens, in});
        const at::Tensor weight = numbers({out, in});
        const at::Tensor bias = numbers({out});
        const at::Tensor residual = numbers({tokens, out});
        const at::Tensor dy = numbers({tokens, out});
        const at::Tensor sum = numbers({out, in});
        // Rows may be a part of longer ones.
        const at::Tensor wide = numbers({tokens, out + 2}).narrow(1, 1, out);

        const at::Tensor y = at::empty_like(residual);
        multiply({y, x, weight.t(), residual, bias});
        BOOST_TEST(at::allclose(y, residual + x.mm(weight.t()) + bias, 1e-5, 1e-5));
        multiply({wide, x, weight.t()});
        BOOST_TEST(at::allclose(wide, x.mm(weight.t()), 1e-5, 1e-5));

        const at::Tensor dx = at::empty_like(x);
        multiply({dx, dy, weight});
        BOOST_TEST(at::allclose(dx, dy.mm(weight), 1e-5, 1e-5));

        for (const float share : {1.0F, 0.0F}) {
            const at::Tensor d_weight = sum.clone();
            multiply({d_weight, dy.t(), x, d_weight, at::Tensor(), share});
            BOOST_TEST(at::allclose(d_weight, share * sum + dy.t().mm(x), 1e-5, 1e-5));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_product_of_any_tokens) {
    const at::Tensor weight = numbers({24, 16});
    const auto forward = [&](int64_t tokens) {
        return ops::shape_of({numbers({tokens, 24}), numbers({tokens, 16}), weight.t()}, 0);
    };
    const auto input_gradient = [&](int64_t tokens) {
        return ops::shape_of({numbers({tokens, 16}), numbers({tokens, 24}), weight}, 0);
    };
    const auto weight_gradient = [&](int64_t tokens) {
        const at::Tensor sum = numbers({24, 16});
        return ops::shape_of({sum, numbers({tokens, 24}).t(), numbers({tokens, 16}), sum}, 0);
    };
    for (const int64_t tokens : {2, 24, 40}) {
        BOOST_TEST(forward(tokens).tokens() == tokens);
        BOOST_TEST(input_gradient(tokens).tokens() == tokens);
        BOOST_TEST(weight_gradient(tokens).tokens() == tokens);
    }
    BOOST_TEST((forward(8).of_any_tokens() == forward(24).of_any_tokens()));
    BOOST_TEST((input_gradient(8).of_any_tokens() == input_gradient(24).of_any_tokens()));
    BOOST_TEST((weight_gradient(8).of_any_tokens() == weight_gradient(24).of_any_tokens()));
    const auto wider = ops::shape_of({numbers({8, 24}), numbers({8, 20}), numbers({20, 24})}, 0);
    for (const ops::ProductShape& other : {input_gradient(8), weight_gradient(8), wider})
        BOOST_TEST((forward(8).of_any_tokens() != other.of_any_tokens()));
}

BOOST_AUTO_TEST_CASE(the_product_of_any_group) {
    for (const auto& [rows, out, in] : {std::array<int64_t, 3>{40, 24, 16}, {40, 7, 12}}) {
        const at::Tensor x = numbers({rows, in});
        const at::Tensor y = numbers({rows, out});
        const at::Tensor w = numbers({3, out, in});
        for (const auto& [group, begin, count] :
             {std::array<int64_t, 3>{0, 0, 5}, {1, 5, 33}, {2, 38, 2}}) {
            const at::Tensor of_x = x.narrow(0, begin, count);
            const at::Tensor of_y = y.narrow(0, begin, count);
            const at::Tensor of_w = w[group];
            for (const auto& [pass, product] :
                 {std::pair{ops::GemmPass::forward, GpuProduct{of_y, of_x, of_w.t()}},
                  {ops::GemmPass::input_gradient, {of_x, of_y, of_w}},
                  {ops::GemmPass::weight_gradient, {of_w, of_y.t(), of_x, of_w}}}) {
                ops::ProductShape shape = ops::shape_of(product, 0);
                const ops::ProductShape of_group = ops::shape_of_group({pass, y, x, w}, count, 0);
                for (size_t matrix = 0; matrix < 4; ++matrix)
                    BOOST_TEST(of_group.alignments[matrix] <= shape.alignments[matrix]);
                BOOST_TEST(!of_group.may_split_sums);
                shape.alignments = of_group.alignments;
                shape.may_split_sums = false;
                BOOST_TEST((shape == of_group));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_choice_holds_whatever_is_added) {
    const at::Tensor x = numbers({8, 16});
    const at::Tensor weight = numbers({24, 16});
    const at::Tensor y = numbers({8, 24});
    const ops::ProductShape alone = ops::shape_of({y, x, weight.t()}, 0);
    const ops::ProductShape with_both =
        ops::shape_of({y, x, weight.t(), numbers({8, 32}).narrow(1, 0, 24), numbers({24})}, 0);
    BOOST_TEST((alone != with_both));
    BOOST_TEST((alone == with_both.without_additions()));
    BOOST_TEST((alone != ops::shape_of({y, x, weight.t()}, 116)));
    // Eight bytes behind the start of a buffer, of which kernels that load 16 know nothing.
    BOOST_TEST((alone !=
                ops::shape_of({y, numbers({130}).narrow(0, 2, 128).view({8, 16}), weight.t()}, 0)));
}
