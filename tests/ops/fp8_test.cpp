// FP8 numbers and products against PyTorch's casts: the numbers to the bit.
#include "ringshard/ops/fp8.hpp"

#include <ATen/ATen.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "golden.hpp"

using namespace ringshard;
using ops::Fp8Format;
using ops::Fp8Scales;

namespace {

std::map<std::string, at::Tensor> golden() {
    return test::read_golden(test::golden_folder() / "fp8" / "products.safetensors");
}

// Of the row that differs most: rows are of very different sizes.
double distance(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor exact = b.to(at::kDouble);
    return ((a.to(at::kDouble) - exact).norm(2, 1) / exact.norm(2, 1).clamp_min(1e-100))
        .max()
        .item<double>();
}

template <class Code>
float through(float number, double largest_of_format, double largest) {
    const auto exponent = static_cast<int>(std::floor(std::log2(largest_of_format / largest)));
    return std::ldexp(static_cast<float>(Code(std::ldexp(number, exponent))), -exponent);
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_are_those_of_pytorch) {
    const auto of = golden();
    const auto check = [&](const char* from, Fp8Format format, Fp8Scales scales, const char* into) {
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            const at::Tensor rounded = ops::round_to_fp8(of.at(from).to(type), format, scales);
            BOOST_TEST((rounded.scalar_type() == type));
            BOOST_TEST(rounded.equal(of.at(into).to(type)), into);
        }
    };
    check("x", Fp8Format::e4m3, Fp8Scales::of_rows, "x_rounded");
    check("weight", Fp8Format::e4m3, Fp8Scales::of_rows, "weight_rows");
    check("weight", Fp8Format::e4m3, Fp8Scales::of_columns, "weight_columns");
    check("dy", Fp8Format::e4m3, Fp8Scales::of_rows, "dy_e4m3");
    check("dy", Fp8Format::e5m2, Fp8Scales::of_rows, "dy_e5m2");
}

BOOST_AUTO_TEST_CASE(every_number_of_bf16_beside_a_larger_one) {
    at::Tensor x = at::empty({65536, 2}, at::kBFloat16);
    auto* const numbers = x.mutable_data_ptr<at::BFloat16>();
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const at::BFloat16 number(static_cast<uint16_t>(bits), at::BFloat16::from_bits());
        const bool is_usual = std::abs(static_cast<float>(number)) < 1e30F;
        numbers[2 * bits] = is_usual ? number : at::BFloat16(0);
        numbers[2 * bits + 1] = at::BFloat16(1.0F);
    }
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
        const at::Tensor rounded = ops::round_to_fp8(x, format, Fp8Scales::of_rows).contiguous();
        const auto* const found = rounded.const_data_ptr<at::BFloat16>();
        int64_t different = 0;
        for (int64_t i = 0; i < 65536; ++i) {
            const float number = numbers[2 * i];
            const double largest = std::max(1.0F, std::abs(number));
            const float wished = format == Fp8Format::e4m3
                                     ? through<c10::Float8_e4m3fn>(number, 448, largest)
                                     : through<c10::Float8_e5m2>(number, 57344, largest);
            if (static_cast<float>(found[2 * i]) != wished) ++different;
        }
        BOOST_TEST(different == 0);
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_stays_so) {
    for (const float broken :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        at::Tensor x = at::ones({16, 32});
        x[3][5] = broken;
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
            for (const Fp8Scales scales : {Fp8Scales::of_rows, Fp8Scales::of_columns}) {
                const at::Tensor rounded = ops::round_to_fp8(x, format, scales);
                BOOST_TEST(at::isnan(rounded[3][5]).item<bool>());
                BOOST_TEST(rounded[4][6].item<float>() == 1);
            }
    }
}

BOOST_AUTO_TEST_CASE(products_are_those_of_the_rounded_numbers) {
    const auto of = golden();
    const ops::Gemms gemms = ops::Gemms::open().value();
    constexpr double rounding = 4e-3;  // of bf16: 2^-8
    const at::Tensor y = ops::fp8_linear(gemms, of.at("x"), of.at("weight"), of.at("bias"));
    BOOST_TEST((y.scalar_type() == at::kBFloat16));
    BOOST_TEST(distance(y, of.at("y")) < rounding);
    const at::Tensor without_bias = ops::fp8_linear(gemms, of.at("x"), of.at("weight"));
    BOOST_TEST(distance(without_bias + of.at("bias"), of.at("y")) < 2 * rounding);
    for (const auto& [format, name] :
         {std::pair{Fp8Format::e4m3, "dx_e4m3"}, std::pair{Fp8Format::e5m2, "dx_e5m2"}}) {
        const at::Tensor dx =
            ops::fp8_linear_backward_input(gemms, of.at("dy"), of.at("weight"), format);
        BOOST_TEST(distance(dx, of.at(name)) < rounding, name);
    }
}

BOOST_AUTO_TEST_CASE(a_row_does_not_depend_on_others) {
    const auto of = golden();
    for (const int64_t begin : {0, 7, 20}) {
        const at::Tensor some = of.at("x").narrow(0, begin, 9);
        BOOST_TEST(ops::round_to_fp8(some, Fp8Format::e4m3, Fp8Scales::of_rows)
                       .equal(of.at("x_rounded").narrow(0, begin, 9)));
    }
    const ops::Gemms gemms = ops::Gemms::open().value();
    const at::Tensor none = of.at("x").narrow(0, 0, 0);
    BOOST_TEST(ops::fp8_linear(gemms, none, of.at("weight")).size(0) == 0);
}
