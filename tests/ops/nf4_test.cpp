// Codes, scales and weights against bitsandbytes, to the bit.
#include "ringshard/ops/nf4.hpp"

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "golden.hpp"
#include "ringshard/ops/int8.hpp"

using namespace ringshard;

namespace {

template <class Number>
std::span<const Number> span_of(const at::Tensor& tensor) {
    return {static_cast<const Number*>(tensor.const_data_ptr()),
            static_cast<size_t>(tensor.numel())};
}

template <class Number>
at::Tensor tensor_of(const std::vector<Number>& numbers) {
    return at::tensor(numbers, at::TensorOptions(at::CppTypeToScalarType<Number>::value));
}

struct Quantized {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
};

Quantized quantize(const at::Tensor& weights) {
    const auto blocks =
        static_cast<size_t>((weights.numel() + ops::nf4_block - 1) / ops::nf4_block);
    Quantized made{std::vector<uint8_t>(blocks * ops::nf4_block_bytes), std::vector<float>(blocks)};
    ops::quantize_nf4(span_of<float>(weights), made.codes, made.scales);
    return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(codes_and_scales_are_those_of_bitsandbytes) {
    const auto golden = test::read_golden(test::golden_folder() / "nf4" / "codes.safetensors");
    BOOST_TEST(golden.at("values").equal(
        at::tensor(std::vector(ops::nf4_values.begin(), ops::nf4_values.end()))));
    BOOST_TEST(golden.at("scale_values")
                   .equal(at::tensor(std::vector(ops::nf4_scale_values().begin(),
                                                 ops::nf4_scale_values().end()))));
    for (const std::string name : {"whole", "nested", "short", "odd", "tiny"}) {
        const auto of = [&](const char* what) { return golden.at(name + "." + what); };
        const at::Tensor weights = of("weight").to(at::kFloat);
        const Quantized made = quantize(weights);
        const at::Tensor codes = tensor_of(made.codes);
        // bitsandbytes keeps no more bytes than a last, short block needs.
        BOOST_TEST(codes.narrow(0, 0, of("codes").numel()).equal(of("codes")), name);
        BOOST_TEST(tensor_of(made.scales).equal(of("scales")), name);
        const ops::NestedScales nested = ops::quantize_scales(made.scales);
        BOOST_TEST(tensor_of(nested.codes).equal(of("scale_codes")), name);
        BOOST_TEST(tensor_of(nested.scales).equal(of("nested_scales")), name);
        BOOST_TEST(nested.mean == of("mean").item<float>(), name);

        const ops::Nf4Matrix plain{codes, of("scales"), {}, {}};
        const ops::Nf4Matrix of_nested{codes, of("scale_codes"), of("nested_scales"), of("mean")};
        for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
            const at::Tensor dense = at::empty(weights.sizes(), at::TensorOptions(type));
            if (name != "nested") {
                ops::dequantize_nf4(dense, plain);
                BOOST_TEST(dense.equal(of("dense").to(type)), name);
            }
            ops::dequantize_nf4(dense, of_nested);
            BOOST_TEST(dense.equal(of("dense_nested").to(type)), name);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_part_of_a_matrix_has_the_codes_of_the_whole) {
    at::manual_seed(1);
    const at::Tensor weights = at::randn({1000});
    const Quantized whole = quantize(weights);
    const Quantized part = quantize(weights.narrow(0, 3 * ops::nf4_block, 5 * ops::nf4_block));
    BOOST_TEST(std::equal(part.codes.begin(), part.codes.end(),
                          whole.codes.begin() + 3 * ops::nf4_block_bytes));
    BOOST_TEST(std::equal(part.scales.begin(), part.scales.end(), whole.scales.begin() + 3));
}

BOOST_AUTO_TEST_CASE(rows_in_eight_bits_are_those_of_bitsandbytes) {
    const auto golden = test::read_golden(test::golden_folder() / "nf4" / "int8.safetensors");
    const at::Tensor weights = golden.at("weight");
    const int64_t width = weights.size(1);
    std::vector<uint8_t> codes(static_cast<size_t>(weights.numel()));
    std::vector<float> scales(static_cast<size_t>(weights.size(0)));
    BOOST_TEST(ops::quantize_int8(span_of<float>(weights), width, codes, scales));
    BOOST_TEST(tensor_of(codes).equal(golden.at("codes").flatten()));
    BOOST_TEST(tensor_of(scales).equal(golden.at("scales")));
    const ops::Int8Matrix matrix{golden.at("codes").flatten(), golden.at("scales")};
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor dense = at::empty(weights.sizes(), at::TensorOptions(type));
        ops::dequantize_int8(dense, matrix);
        BOOST_TEST(dense.equal(golden.at("dense").to(type)));
    }
    // A row's numbers are rounded to fp16, which ends at 65504.
    const at::Tensor large = at::full({1, 3}, 65519.0F);
    BOOST_TEST(ops::quantize_int8(span_of<float>(large), 3, std::span(codes).first(3),
                                  std::span(scales).first(1)));
    BOOST_TEST(scales[0] == 65504);
    large[0][2] = 65520.0F;
    BOOST_TEST(!ops::quantize_int8(span_of<float>(large), 3, std::span(codes).first(3),
                                   std::span(scales).first(1)));
}
