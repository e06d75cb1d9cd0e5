// The program's own products of matrices, against products in double precision.
#include <ATen/Parallel.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "autograd.hpp"
#include "gemm_backends.hpp"
#include "ringshard/ops/linear.hpp"

using namespace ringshard;
using test::distance;

namespace {

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

void check(const ops::Gemms& gemms, at::TensorOptions options, int64_t tokens, int64_t in,
           int64_t out) {
    BOOST_TEST_INFO_SCOPE(gemms.backends().front()->version()
                          << " " << options.dtype().name() << " " << tokens << " tokens, " << out
                          << " x " << in);
    const double tolerance = test::tolerance(options.dtype().toScalarType());
    const at::Tensor x = at::randn({tokens, in + 24}, options).narrow(1, 8, in);
    const at::Tensor weight = at::randn({out, in}, options);
    const at::Tensor bias = at::randn({out}, options);
    const at::Tensor dy = at::randn({tokens, out}, options);
    const at::Tensor before = at::randn({tokens, out}, options);
    const auto products = [&] {
        const at::Tensor d_weight = at::ones({out, in});
        ops::add_weight_gradient(gemms, d_weight, dy, x);
        const at::Tensor begun = at::full({out, in}, std::nan(""));
        ops::add_weight_gradient(gemms, begun, dy, x, true);
        const at::Tensor sums = before.clone();
        ops::add_linear(gemms, sums, x, weight);
        return std::vector{ops::linear(gemms, x, weight, bias),
                           ops::linear_backward_input(gemms, dy, weight), d_weight, sums, begun};
    };
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const std::vector<at::Tensor> on_one_thread = products();
    BOOST_TEST(distance(on_one_thread[0], wide(x).mm(wide(weight).t()) + wide(bias)) < tolerance);
    BOOST_TEST(distance(on_one_thread[1], wide(dy).mm(wide(weight))) < tolerance);
    BOOST_TEST(distance(on_one_thread[2], wide(dy).t().mm(wide(x)) + 1) < tolerance);
    BOOST_TEST(distance(on_one_thread[3], wide(before) + wide(x).mm(wide(weight).t())) < tolerance);
    BOOST_TEST(distance(on_one_thread[4], wide(dy).t().mm(wide(x))) < tolerance);
    at::set_num_threads(3);
    const std::vector<at::Tensor> on_three = products();
    at::set_num_threads(threads);
    for (size_t i = 0; i < on_three.size(); ++i)
        BOOST_TEST(at::equal(on_three[i], on_one_thread[i]));
}

}  // namespace

// The kernels of every kind that this processor can run, with sides that end inside a block and
// with more than one block in each direction; and on one thread as on three.
BOOST_AUTO_TEST_CASE(native_kernels_in_blocks) {
    at::manual_seed(8);
    for (int number = 0; const ops::Kernels* kernels = ops::kernels_here(number); ++number) {
        std::vector<std::unique_ptr<ops::GemmBackend>> backends;
        backends.push_back(ops::make_native_gemm(*kernels));
        const ops::Gemms gemms(std::move(backends), ops::this_processor());
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            check(gemms, type, 1931, 3, 70);
            check(gemms, type, 5, 1037, 1090);
            check(gemms, type, 250, 2055, 33);
            check(gemms, type, 1027, 47, 2049);
            // As of adapters: one vector of columns, in tall tiles.
            check(gemms, type, 1031, 1100, 16);
            check(gemms, type, 301, 8, 190);
            // A gradient that does not fit into caches.
            check(gemms, type, 7, 1040, 3100);
        }
    }
}

// What is no number, and what is infinite, stays so when a sum is rounded to bf16.
BOOST_AUTO_TEST_CASE(native_kernels_keep_what_is_not_finite) {
    for (int number = 0; const ops::Kernels* kernels = ops::kernels_here(number); ++number) {
        BOOST_TEST_INFO_SCOPE(kernels->name);
        const std::unique_ptr<ops::GemmBackend> native = ops::make_native_gemm(*kernels);
        const at::Tensor a = at::ones({7, 20}, at::kBFloat16);
        a[1][3] = std::nan("");
        a[2][3] = INFINITY;
        a[3][3] = -INFINITY;
        const at::Tensor c = at::empty({7, 40}, at::kBFloat16);
        native->multiply(c, a, at::ones({20, 40}, at::kBFloat16), {});
        BOOST_TEST(at::equal(c[0], at::full({40}, 20.0, at::kBFloat16)));
        BOOST_TEST(c[1].isnan().all().item<bool>());
        BOOST_TEST(at::equal(c[2], at::full({40}, INFINITY, at::kBFloat16)));
        BOOST_TEST(at::equal(c[3], at::full({40}, -INFINITY, at::kBFloat16)));
    }
}

// A product without terms is zero: it leaves the bias, or the sums to which it is added.
BOOST_AUTO_TEST_CASE(native_products_without_terms) {
    for (int number = 0; const ops::Kernels* kernels = ops::kernels_here(number); ++number)
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            BOOST_TEST_INFO_SCOPE(kernels->name << " " << type);
            const std::unique_ptr<ops::GemmBackend> native = ops::make_native_gemm(*kernels);
            const at::Tensor a = at::empty({70, 0}, type);
            const at::Tensor b = at::empty({0, 40}, type);
            const at::Tensor bias = at::arange(40, type);
            const at::Tensor c = at::full({70, 40}, 3.0, type);
            native->accumulate(c, a, b);
            BOOST_TEST(at::equal(c, at::full_like(c, 3.0)));
            native->multiply(c, a, b, bias);
            BOOST_TEST(at::equal(c, bias.expand({70, 40})));
            native->multiply(c, a, b, {});
            BOOST_TEST(at::equal(c, at::zeros_like(c)));
            const at::Tensor sums = at::ones({70, 40});
            native->add_product(sums, a, b);
            BOOST_TEST(at::equal(sums, at::ones({70, 40})));
            native->write_product(sums, a, b);
            BOOST_TEST(at::equal(sums, at::zeros({70, 40})));
        }
}
