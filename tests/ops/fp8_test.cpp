// FP8 numbers and products against PyTorch's casts: the numbers to the bit.
#include "ringshard/ops/fp8.hpp"

#include <ATen/ATen.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
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

float largest_of(Fp8Format format) { return format == Fp8Format::e4m3 ? 448.0F : 57344.0F; }

// Through PyTorch's cast with this scale; beyond the range the largest number.
float with_exponent(float number, Fp8Format format, int exponent) {
    if (!std::isfinite(number)) return std::numeric_limits<float>::quiet_NaN();
    const double scaled = std::ldexp(static_cast<double>(number), exponent);
    const double largest = largest_of(format);
    const auto within = static_cast<float>(std::clamp(scaled, -largest, largest));
    const float code = format == Fp8Format::e4m3 ? static_cast<float>(c10::Float8_e4m3fn(within))
                                                 : static_cast<float>(c10::Float8_e5m2(within));
    return static_cast<float>(std::ldexp(static_cast<double>(code), -exponent));
}

// Returns how many numbers differ; NaN equals NaN.
int64_t different_numbers(const at::Tensor& rounded, const at::Tensor& from, Fp8Format format,
                          int exponent) {
    const at::Tensor numbers = from.to(at::kFloat).contiguous();
    const at::Tensor found = rounded.to(at::kFloat).contiguous();
    int64_t different = 0;
    for (int64_t i = 0; i < numbers.numel(); ++i) {
        const float wished = with_exponent(numbers.const_data_ptr<float>()[i], format, exponent);
        const float got = found.const_data_ptr<float>()[i];
        if (std::isnan(wished) ? !std::isnan(got) : wished != got) ++different;
    }
    return different;
}

at::Tensor number_of(int32_t value) { return at::full({1}, value, at::kInt); }

int32_t bits_of(float number) {
    int32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
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

BOOST_AUTO_TEST_CASE(a_scale_of_the_largest_number_serves_the_whole_tensor) {
    const at::Tensor some = golden().at("x").narrow(0, 8, 32);  // rows of 1e20 are left out
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
            const at::Tensor x = some.to(type);
            const auto largest = x.abs().max().item<float>();
            const int exponent =
                static_cast<int>(std::floor(std::log2(largest_of(format) / largest)));
            const at::Tensor rounded = ops::round_to_fp8(x, format, Fp8Scales::of_tensor);
            BOOST_TEST((rounded.scalar_type() == type));
            BOOST_TEST(different_numbers(rounded, x, format, exponent) == 0);
            // The largest number keeps its size, and rows of small ones are coarser than alone.
            BOOST_TEST(rounded.abs().max().item<float>() > 0.9F * largest);
            if (format == Fp8Format::e4m3)
                BOOST_TEST(!rounded.equal(ops::round_to_fp8(x, format, Fp8Scales::of_rows)));
            const at::Tensor again = ops::round_to_fp8(x, format, Fp8Scales::of_tensor,
                                                       {.exponent = number_of(exponent)});
            BOOST_TEST(again.equal(rounded));
        }
    const at::Tensor zeros = at::zeros({16, 32});
    BOOST_TEST(ops::round_to_fp8(zeros, Fp8Format::e4m3, Fp8Scales::of_tensor).equal(zeros));
}

BOOST_AUTO_TEST_CASE(numbers_beyond_a_given_scale_become_the_largest) {
    at::Tensor x = at::randn({33, 48}) * 3;
    x[2][3] = 1e30F;
    x[2][4] = -1e30F;
    x[3][5] = std::numeric_limits<float>::infinity();
    x[3][6] = -std::numeric_limits<float>::infinity();
    x[3][7] = std::numeric_limits<float>::quiet_NaN();
    x[4][8] = 1e-35F;
    x[5] = 0;
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
            for (const int exponent : {-110, -3, 0, 7, 12, 110}) {
                BOOST_TEST_INFO_SCOPE(exponent);
                const at::Tensor numbers = x.to(type);
                const at::Tensor rounded = ops::round_to_fp8(numbers, format, Fp8Scales::of_tensor,
                                                             {.exponent = number_of(exponent)});
                BOOST_TEST(different_numbers(rounded, numbers, format, exponent) == 0);
                const float most = std::ldexp(largest_of(format), -exponent);
                if (exponent > -100) BOOST_TEST(rounded[2][3].item<float>() == most);
                if (exponent > -100) BOOST_TEST(rounded[2][4].item<float>() == -most);
            }
}

BOOST_AUTO_TEST_CASE(the_largest_magnitude_of_the_counted_rows_is_kept) {
    for (const Fp8Scales scales : {Fp8Scales::of_rows, Fp8Scales::of_tensor})
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            const at::Tensor x = at::randn({40, 64}).clamp(-3, 3).to(type);
            x[7][9] = -8.5F;
            x[30][1] = 100.0F;
            const auto keep = [&](const at::Tensor& numbers, const at::Tensor& maximum,
                                  int64_t counted) {
                ops::DelayedScale delayed{.maximum = maximum, .counted = counted};
                if (scales == Fp8Scales::of_tensor) delayed.exponent = number_of(3);
                const at::Tensor rounded =
                    ops::round_to_fp8(numbers, Fp8Format::e4m3, scales, delayed);
                delayed.maximum = at::Tensor();  // and changes no number
                BOOST_TEST(at::allclose(
                    rounded, ops::round_to_fp8(numbers, Fp8Format::e4m3, scales, delayed), 0, 0,
                    true));
                return maximum.item<int32_t>();
            };
            const at::Tensor maximum = number_of(0);
            BOOST_TEST(keep(x, maximum, 0) == 0);
            BOOST_TEST(keep(x, maximum, 30) == bits_of(8.5F));
            BOOST_TEST(keep(x.narrow(0, 10, 5), maximum, 5) == bits_of(8.5F));  // never falls
            BOOST_TEST(keep(x, maximum, 40) == bits_of(100.0F));
            x[12][3] = std::numeric_limits<float>::quiet_NaN();
            BOOST_TEST(keep(x, maximum, 40) >= bits_of(std::numeric_limits<float>::infinity()));
            BOOST_TEST(keep(x.narrow(0, 0, 0), number_of(0), 0) == 0);
        }
}

// Of a GPU several teams, whose stretches end within rows.
BOOST_AUTO_TEST_CASE(large_tensors_are_counted_row_by_row) {
    for (const int64_t width : {208, 207}) {
        const at::Tensor x = at::randn({300, width}).clamp(-3, 3).to(at::kBFloat16);
        for (const int64_t row : {0, 77, 78, 79, 157, 158, 236, 299})
            x[row][row % width] = 16.0F + static_cast<float>(row);
        for (const int64_t counted : {0, 1, 77, 78, 79, 80, 158, 200, 299, 300}) {
            BOOST_TEST_INFO_SCOPE(width << ", " << counted);
            const at::Tensor maximum = number_of(0);
            const at::Tensor rounded = ops::round_to_fp8(x, Fp8Format::e4m3, Fp8Scales::of_tensor,
                                                         {number_of(-1), maximum, counted});
            BOOST_TEST(different_numbers(rounded, x, Fp8Format::e4m3, -1) == 0);
            const float expected =
                counted == 0 ? 0 : x.narrow(0, 0, counted).abs().max().item<float>();
            BOOST_TEST(maximum.item<int32_t>() == bits_of(expected));
        }
    }
}

BOOST_AUTO_TEST_CASE(an_exponent_is_the_largest_that_keeps_a_magnitude_in_range) {
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
        const double largest = largest_of(format);
        for (const float magnitude :
             {1.0F, 1.75F, 1.7501F, 448.0F, 449.0F, 57344.0F, 3e-5F, 1e20F, 2.9e38F}) {
            BOOST_TEST_INFO_SCOPE(magnitude);
            const int exponent = ops::fp8_exponent(magnitude, format, 0);
            BOOST_TEST(std::ldexp(static_cast<double>(magnitude), exponent) <= largest);
            BOOST_TEST(std::ldexp(static_cast<double>(magnitude), exponent + 1) > largest);
            if (magnitude < 1e10F)
                BOOST_TEST(ops::fp8_exponent(magnitude, format, 3) == exponent - 3);
            // With any margin the largest number of the format is finite.
            BOOST_TEST(std::isfinite(std::ldexp(static_cast<float>(largest),
                                                -ops::fp8_exponent(magnitude, format, 64))));
        }
        BOOST_TEST(ops::fp8_exponent(1e-38F, format, 0) == 110);
    }
}

BOOST_AUTO_TEST_CASE(products_with_a_scale_for_each_tensor) {
    const auto of = golden();
    const ops::Gemms gemms = ops::Gemms::open().value();
    constexpr double rounding = 4e-3;  // of bf16: 2^-8
    const at::Tensor x = of.at("x").narrow(0, 8, 32);
    const at::Tensor dy = of.at("dy").narrow(0, 8, 32);
    const at::Tensor& weight = of.at("weight");
    const auto in_double = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
    const at::Tensor w =
        in_double(ops::round_to_fp8(weight, Fp8Format::e4m3, Fp8Scales::of_tensor));
    const auto whole = [](const at::Tensor& tensor) { return tensor.reshape({1, -1}); };
    for (const at::Tensor& exponent : {at::Tensor(), number_of(5), number_of(-4)}) {
        const at::Tensor maximum = number_of(0);
        const ops::DelayedScale delayed{exponent, maximum, 32};
        const at::Tensor y =
            ops::fp8_linear(gemms, x, weight, of.at("bias"), Fp8Scales::of_tensor, delayed);
        const at::Tensor rounded =
            ops::round_to_fp8(x, Fp8Format::e4m3, Fp8Scales::of_tensor, {exponent, {}, 0});
        const at::Tensor exact = in_double(rounded).matmul(w.t()) + in_double(of.at("bias"));
        BOOST_TEST((y.scalar_type() == at::kBFloat16));
        BOOST_TEST(distance(whole(y), whole(exact)) < rounding);
        BOOST_TEST(maximum.item<int32_t>() == bits_of(x.abs().max().item<float>()));
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
            const at::Tensor dx = ops::fp8_linear_backward_input(gemms, dy, weight, format,
                                                                 Fp8Scales::of_tensor, delayed);
            const at::Tensor dy_rounded =
                ops::round_to_fp8(dy, format, Fp8Scales::of_tensor, {exponent, {}, 0});
            BOOST_TEST(distance(whole(dx), whole(in_double(dy_rounded).matmul(w))) < rounding);
        }
    }
    // A scale for each row is as before, and keeps the magnitude too.
    const at::Tensor maximum = number_of(0);
    BOOST_TEST(ops::fp8_linear(gemms, x, weight, {}, Fp8Scales::of_rows, {{}, maximum, 32})
                   .equal(ops::fp8_linear(gemms, x, weight)));
    BOOST_TEST(maximum.item<int32_t>() == bits_of(x.abs().max().item<float>()));
    const at::Tensor none = x.narrow(0, 0, 0);
    BOOST_TEST(ops::fp8_linear(gemms, none, weight, {}, Fp8Scales::of_tensor).size(0) == 0);
}
