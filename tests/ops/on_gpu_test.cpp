// Every kernel gives the same result on a GPU and on the host.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <iostream>
#include <numeric>

#include "backends.hpp"
#include "on_gpu.hpp"
#include "ringshard/ops/head_gradients.hpp"
#include "ringshard/ops/product_kernels.hpp"

using namespace ringshard;
using namespace ringshard::ops;
using test::distance;
using test::has_time_for;
using test::is_small;
using test::is_whole;

namespace {

struct Shape {
    at::ScalarType type;
    int64_t tokens;
    int64_t width;
};

// Sizes that make packs of sixteen bytes, and such that do not; more rows than one block, and more
// than all multiprocessors hold at a time.
const std::vector<Shape> shapes{{at::kFloat, 3, 7},        {at::kFloat, 300, 256},
                                {at::kBFloat16, 5, 24},    {at::kBFloat16, 1, 8192},
                                {at::kBFloat16, 777, 896}, {at::kBFloat16, 4096, 4096}};

template <class Check>
void for_shapes(Check check) {
    at::manual_seed(11);
    for (const Shape& shape : shapes) {
        if (!has_time_for(shape.tokens, shape.width)) continue;
        BOOST_TEST_INFO_SCOPE(shape.tokens << " x " << shape.width << " "
                                           << at::toString(shape.type));
        check(shape, shape.type == at::kFloat ? 1e-6 : 4e-3);
    }
}

at::Tensor random(const Shape& shape, int64_t rows, int64_t width) {
    return at::randn({rows, width}).to(shape.type);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(on_gpu)

BOOST_AUTO_TEST_CASE(rms_norm_both_ways) {
    for_shapes([](const Shape& shape, double tolerance) {
        const at::Tensor x = random(shape, shape.tokens, shape.width);
        const at::Tensor weight = random(shape, 1, shape.width)[0];
        const at::Tensor dy = random(shape, shape.tokens, shape.width);
        const RmsNormed host = cuda::rms_norm(x, weight, 1e-6);
        const RmsNormed gpu = cuda::rms_norm(x.cuda(), weight.cuda(), 1e-6);
        BOOST_TEST(distance(gpu.y, host.y) < tolerance);
        BOOST_TEST(distance(cuda::rms_norm_again(x.cuda(), weight.cuda(), gpu.inverse_rms),
                            host.y) < tolerance);
        const at::Tensor dx = at::ones_like(x);
        const at::Tensor d_weight = at::ones({shape.width});
        const at::Tensor dx_gpu = dx.cuda();
        const at::Tensor d_weight_gpu = d_weight.cuda();
        constexpr bool makes_normed = true;
        const at::Tensor rows_gpu = dy.cuda();
        cuda::rms_norm_backward(dy, x, host.inverse_rms, weight, dx, d_weight, !makes_normed);
        cuda::rms_norm_backward(rows_gpu, x.cuda(), gpu.inverse_rms, weight.cuda(), dx_gpu,
                                d_weight_gpu, makes_normed);
        BOOST_TEST(distance(dx_gpu, dx) < tolerance);
        BOOST_TEST(distance(d_weight_gpu, d_weight) < 1e-5);
        BOOST_TEST(rows_gpu.equal(gpu.y));
    });
}

BOOST_AUTO_TEST_CASE(a_sum_and_its_norm) {
    for_shapes([](const Shape& shape, double tolerance) {
        const at::Tensor branch = random(shape, shape.tokens, shape.width);
        const at::Tensor x = random(shape, shape.tokens, shape.width);
        const at::Tensor weight = random(shape, 1, shape.width)[0];
        const at::Tensor gpu_branch = branch.cuda();
        const RmsNormed host = cuda::add_rms_norm(branch, 0.5, x, weight, 1e-6);
        const RmsNormed gpu = cuda::add_rms_norm(gpu_branch, 0.5, x.cuda(), weight.cuda(), 1e-6);
        BOOST_TEST(distance(gpu.y, host.y) < tolerance);
        BOOST_TEST(distance(gpu.inverse_rms, host.inverse_rms) < 1e-5);
        BOOST_TEST(distance(gpu_branch, branch) < tolerance);
    });
}

BOOST_AUTO_TEST_CASE(gradients_of_heads_become_rows) {
    const int64_t tokens = is_small() ? 61 : 301;
    constexpr int64_t width = 64;
    constexpr int64_t query_heads = 6;
    constexpr int64_t key_heads = 2;
    const RopeTable table{at::randn({2 * tokens, width / 2}), at::randn({2 * tokens, width / 2}),
                          width, false};
    const RopeTable gpu_table{table.cosine.cuda(), table.sine.cuda(), width, false};
    for (const auto from : {at::kFloat, at::kBFloat16}) {
        const auto gradient = [&](int64_t heads) {
            return at::randn({2, tokens, heads, width}).to(from);
        };
        const at::Tensor dq = gradient(query_heads);
        const at::Tensor dk = gradient(key_heads);
        const at::Tensor dv = gradient(key_heads);
        const int64_t columns = (query_heads + 2 * key_heads) * width;
        const at::Tensor rows = at::zeros({2 * tokens, columns}, at::kBFloat16);
        const at::Tensor d_bias = at::ones({columns});
        const at::Tensor gpu_rows = rows.cuda();
        const at::Tensor gpu_bias = d_bias.cuda();
        put_head_gradients({dq, dk, dv, rows, 0, tokens, &table, d_bias});
        put_head_gradients(
            {dq.cuda(), dk.cuda(), dv.cuda(), gpu_rows, 0, tokens, &gpu_table, gpu_bias});
        BOOST_TEST(distance(gpu_rows, rows) < 4e-3);
        BOOST_TEST(distance(gpu_bias, d_bias) < 1e-3);
    }
}

BOOST_AUTO_TEST_CASE(weights_in_four_bits) {
    const int64_t blocks = is_small() ? 300 : 1000;
    const at::Tensor codes = at::randint(256, {blocks * nf4_block_bytes}, at::kByte);
    const at::Tensor scales = at::rand({blocks});
    const at::Tensor nested = at::randint(256, {blocks}, at::kByte);
    const at::Tensor scales_of_scales = at::rand({(blocks + 255) / 256});
    const at::Tensor mean = at::rand({1});
    for (const auto type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor host = at::zeros({blocks * nf4_block - 5}, type);
        const at::Tensor gpu = host.cuda();
        cuda::dequantize_nf4(host, {codes, scales, {}, {}});
        cuda::dequantize_nf4(gpu, {codes.cuda(), scales.cuda(), {}, {}});
        BOOST_TEST(gpu.cpu().equal(host));
        cuda::dequantize_nf4(host, {codes, nested, scales_of_scales, mean});
        cuda::dequantize_nf4(gpu,
                             {codes.cuda(), nested.cuda(), scales_of_scales.cuda(), mean.cuda()});
        BOOST_TEST(distance(gpu, host) < 1e-6);  // one rounds a product and a sum together
    }
}

BOOST_AUTO_TEST_CASE(weights_in_eight_bits) {
    const int64_t rows = is_small() ? 37 : 1000;
    for (const int64_t width : {520, 77}) {
        const at::Tensor codes = at::randint(256, {rows * width}, at::kByte);
        const at::Tensor scales = at::rand({rows});
        for (const auto type : {at::kFloat, at::kBFloat16}) {
            const at::Tensor host = at::zeros({rows, width}, type);
            const at::Tensor gpu = host.cuda();
            cuda::dequantize_int8(host, {codes, scales});
            cuda::dequantize_int8(gpu, {codes.cuda(), scales.cuda()});
            BOOST_TEST(gpu.cpu().equal(host));
        }
    }
}

BOOST_AUTO_TEST_CASE(head_norm_and_rope_both_ways) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
        const double tolerance = type == at::kFloat ? 1e-6 : 4e-3;
        const int64_t tokens = is_small() ? 61 : 517;
        const int64_t width = 64;
        const at::Tensor rows = at::randn({tokens, 6 * width}).to(type);
        const at::Tensor weight = at::randn({width}).to(type);
        const at::Tensor gpu_rows = rows.cuda();
        const HeadRange heads{1, 3};
        const HeadsBeforeNorm host = cuda::head_norm(rows, heads, weight, 1e-6);
        const HeadsBeforeNorm gpu = cuda::head_norm(gpu_rows, heads, weight.cuda(), 1e-6);
        BOOST_TEST(distance(gpu_rows, rows) < tolerance);
        const at::Tensor positions = at::arange(tokens) * 1000;
        const at::Tensor frequencies = at::rand({width / 2});
        const RopeTable table = cuda::make_rope_table(positions, frequencies, 1.5);
        const RopeTable gpu_table =
            cuda::make_rope_table(positions.cuda(), frequencies.cuda(), 1.5);
        BOOST_TEST(distance(gpu_table.sine, table.sine) < 1e-6);
        cuda::rope(rows, 4, table, Turn::backward);
        cuda::rope(gpu_rows, 4, gpu_table, Turn::backward);
        BOOST_TEST(distance(gpu_rows, rows) < tolerance);
        const at::Tensor d_weight = at::zeros({width});
        const at::Tensor gpu_d_weight = d_weight.cuda();
        cuda::head_norm_backward(rows, heads, host, weight, d_weight);
        cuda::head_norm_backward(gpu_rows, heads, gpu, weight.cuda(), gpu_d_weight);
        BOOST_TEST(distance(gpu_rows, rows) < tolerance);
        BOOST_TEST(distance(gpu_d_weight, d_weight) < 2e-3);
    }
}

BOOST_AUTO_TEST_CASE(swiglu_both_ways) {
    for_shapes([](const Shape& shape, double tolerance) {
        const at::Tensor gate_up = random(shape, shape.tokens, 2 * shape.width);
        const at::Tensor gpu_gate_up = gate_up.cuda();
        BOOST_TEST(distance(cuda::swiglu(gpu_gate_up), cuda::swiglu(gate_up)) < tolerance);
        const at::Tensor d = random(shape, shape.tokens, shape.width);
        const at::Tensor gpu_d = d.cuda();
        cuda::swiglu_backward(d, gate_up, true);
        cuda::swiglu_backward(gpu_d, gpu_gate_up, true);
        BOOST_TEST(distance(gpu_d, d) < tolerance);
        BOOST_TEST(distance(gpu_gate_up, gate_up) < tolerance);
    });
}

BOOST_AUTO_TEST_CASE(embedding_backward_is_the_same_every_time) {
    const int64_t rows = is_small() ? 300 : 3000;
    const int64_t width = is_small() ? 200 : 520;
    const at::Tensor tokens = at::randint(50, {rows}, at::kLong);
    const at::Tensor dy = at::randn({rows, width}).to(at::kBFloat16);
    const at::Tensor host = at::zeros({64, width});
    cuda::embedding_backward(dy, tokens, host, 7);
    at::Tensor first;
    for (int round = 0; round < 3; ++round) {
        const at::Tensor gpu = at::zeros({64, width}).cuda();
        cuda::embedding_backward(dy.cuda(), tokens.cuda(), gpu, 7);
        BOOST_TEST(distance(gpu, host) < 1e-6);
        if (round > 0) BOOST_TEST(at::equal(gpu, first));
        first = gpu;
    }
}

BOOST_AUTO_TEST_CASE(cross_entropy_and_its_gradient) {
    for (const auto type : {at::kFloat, at::kBFloat16})
        for (const int64_t vocabulary : {250, 517, 32'000, 151'936}) {
            if (!has_time_for(8, vocabulary)) continue;
            const at::Tensor logits = (at::randn({8, vocabulary}) * 3).to(type);
            const Targets targets{at::randint(vocabulary, {8}, at::kLong), at::rand({8})};
            const Targets gpu_targets{targets.tokens.cuda(), targets.weights.cuda()};
            const at::Tensor token_stats = at::zeros({8, stats_per_token});
            const at::Tensor gpu_logits = logits.cuda();
            const at::Tensor gpu_token_stats = token_stats.cuda();
            const LossForm form{.times_probability = false, .smoothing = 0.1};
            cuda::cross_entropy_value(logits, targets, form, token_stats);
            cuda::cross_entropy_value(gpu_logits, gpu_targets, form, gpu_token_stats);
            BOOST_TEST(distance(gpu_token_stats, token_stats) < 1e-5);
            BOOST_TEST(gpu_logits.cpu().equal(logits));
            token_stats.zero_();
            gpu_token_stats.zero_();
            cuda::cross_entropy(logits, targets, 0.3, form, token_stats);
            cuda::cross_entropy(gpu_logits, gpu_targets, 0.3, form, gpu_token_stats);
            BOOST_TEST(distance(gpu_token_stats, token_stats) < 1e-5);
            BOOST_TEST(distance(gpu_logits, logits) < (type == at::kFloat ? 1e-5 : 4e-3));
            BOOST_TEST(add_up(gpu_token_stats).num_correct == add_up(token_stats).num_correct);
        }
}

BOOST_AUTO_TEST_CASE(flat_buffers) {
    const int64_t count = is_small() ? 10'003 : 1'000'003;
    const at::Tensor numbers = at::randn({count});
    // The sum of a block is in fp32. The GPU rounds x * x + sum once, and the host, without FMA,
    // twice: simulated, 35 of 40 seeds differ by more than 1e-9, and all by less than 1e-8.
    BOOST_TEST(std::abs(cuda::sum_of_squares(numbers.cuda()).item<double>() /
                            cuda::sum_of_squares(numbers).item<double>() -
                        1) < 1e-7);
    const int64_t some = count / 10 + 1;
    for (const auto moment : {at::kFloat, at::kBFloat16}) {
        const auto make = [&](at::Device device) {
            at::manual_seed(2);
            return UpdateBuffers{
                at::randn({some}).to(device),
                {at::rand({some}).to(moment).to(device), at::rand({some}).to(moment).to(device)},
                at::randn({some}).to(device),
                at::zeros({some}, at::kBFloat16).to(device),
                12'345};
        };
        const UpdateStep step{1e-2, 0.1, 0.5, 7};
        for (const UpdateRule& rule :
             {UpdateRule(AdamWRule(step, 0.9, 0.999, 1e-8)),
              UpdateRule(AdamRule(step, 0.9, 0.999, 1e-8)), UpdateRule(LionRule(step, 0.9, 0.99)),
              UpdateRule(RmspropRule(step, 0.99, 1e-8)), UpdateRule(AdagradRule(step, 0.1, 1e-10)),
              UpdateRule(SgdRule(step)), UpdateRule(MomentumRule(step, 0.9, 0, true))}) {
            const auto on = [&](at::Device device) {
                UpdateBuffers buffers = make(device);
                buffers.moments.resize(num_moments_of(rule));
                return buffers;
            };
            const UpdateBuffers host = on(at::kCPU);
            const UpdateBuffers walked = on(at::kCPU);
            const UpdateBuffers gpu = on(at::kCUDA);
            cpu::update(host, rule);
            cuda::update(walked, rule);
            cuda::update(gpu, rule);
            BOOST_TEST(distance(walked.weights, host.weights) < 1e-6);
            BOOST_TEST(distance(gpu.weights, host.weights) < 1e-6);
            for (size_t i = 0; i < host.moments.size(); ++i)  // chances near a half
                BOOST_TEST(distance(gpu.moments[i], host.moments[i]) < 1e-4);
        }
    }
}

BOOST_AUTO_TEST_CASE(gradients_of_weights_are_summed_in_fp32,
                     *boost::unit_test::precondition(is_whole)) {
    const at::Tensor dy = at::randn({700, 96}).to(at::kBFloat16);
    const at::Tensor x = at::randn({700, 160}).to(at::kBFloat16);
    const at::Tensor expected = at::ones({96, 160}) + dy.to(at::kFloat).t().mm(x.to(at::kFloat));
    const at::Tensor sum = at::ones({96, 160}).cuda();
    cuda::add_weight_gradient(Gemms(), sum, dy.cuda(), x.cuda(), false);
    // Tensor cores may cut off the last bits of a sum instead of rounding: simulated, 0.7e-6 over
    // 700 tokens. A sum in bf16 would be off by 1e-3.
    BOOST_TEST(distance(sum, expected) < 3e-6);
    // The first product of a sum reads nothing.
    sum.fill_(std::nan(""));
    cuda::add_weight_gradient(Gemms(), sum, dy.cuda(), x.cuda(), true);
    BOOST_TEST(distance(sum, expected - 1) < 3e-6);
}

BOOST_AUTO_TEST_CASE(products_add_what_lies_apart, *boost::unit_test::precondition(is_whole)) {
    const Gemms gemms;
    for (const auto& [tokens, out, in] :
         {std::array<int64_t, 3>{1, 8, 16}, {37, 24, 40}, {700, 96, 160}, {777, 896, 4864}}) {
        BOOST_TEST_INFO_SCOPE(tokens << " x " << out << " x " << in);
        for (const auto type : {at::kFloat, at::kBFloat16}) {
            const at::Tensor x = at::randn({tokens, in}).to(type);
            const at::Tensor weight = at::randn({out, in}).to(type);
            const at::Tensor bias = at::randn({out}).to(type);
            const at::Tensor addend = at::randn({tokens, out}).to(type);
            const at::Tensor kept = addend.cuda();
            const at::Tensor plain =
                addend.to(at::kFloat) + x.to(at::kFloat).mm(weight.t().to(at::kFloat));
            const double most = type == at::kFloat ? 1e-5 : 4e-3;
            const auto sum = [&](const at::Tensor& with_bias, const at::Tensor& into = {}) {
                return cuda::linear_add(gemms, x.cuda(), weight.cuda(), with_bias, kept, into);
            };
            BOOST_TEST(distance(sum({}), plain) < most);
            BOOST_TEST(distance(sum(bias.cuda()), plain + bias.to(at::kFloat)) < most);
            const at::Tensor wider = at::zeros({tokens + 2, out}, kept.options());
            sum({}, wider.narrow(0, 1, tokens));
            BOOST_TEST(distance(wider.narrow(0, 1, tokens), plain) < most);
            BOOST_TEST(wider[0].abs().sum().item<double>() == 0);
            BOOST_TEST(wider[tokens + 1].abs().sum().item<double>() == 0);
            BOOST_TEST(kept.cpu().equal(addend));
        }
    }
}

// Else a token of one document would move bits of another, if it chose another expert.
BOOST_AUTO_TEST_CASE(a_row_of_a_group_does_not_depend_on_its_company,
                     *boost::unit_test::precondition(is_whole)) {
    const Gemms gemms;
    constexpr int64_t rows = 700;
    for (const auto& [type, out, in] : {std::tuple{at::kFloat, 48, 32},
                                        {at::kFloat, 33, 20},
                                        {at::kFloat, 1407, 32},
                                        {at::kBFloat16, 48, 32},
                                        {at::kBFloat16, 33, 21},
                                        {at::kBFloat16, 1024, 2048}}) {
        BOOST_TEST_INFO_SCOPE(at::toString(type) << " " << out << " x " << in);
        const double most = type == at::kFloat ? 1e-5 : 4e-3;
        const at::Tensor x = at::randn({rows, in}).to(type);
        const at::Tensor dy = at::randn({rows, out}).to(type);
        const at::Tensor weights = at::randn({3, out, in}).to(type);
        const std::vector<int64_t> counts{1, 499, 200};
        const at::Tensor y = cuda::grouped_linear(gemms, x.cuda(), weights.cuda(), counts);
        const at::Tensor dx =
            cuda::grouped_linear_backward_input(gemms, dy.cuda(), weights.cuda(), counts);
        for (const int64_t other : {1, 2, 7, 64, 199}) {
            const auto some = [&](const at::Tensor& all) {
                return all.narrow(0, rows - other, other);
            };
            const std::vector<int64_t> few{0, 0, other};
            BOOST_TEST(
                some(y).equal(cuda::grouped_linear(gemms, some(x).cuda(), weights.cuda(), few)));
            BOOST_TEST(some(dx).equal(
                cuda::grouped_linear_backward_input(gemms, some(dy).cuda(), weights.cuda(), few)));
        }
        const at::Tensor sums = at::ones({3, out, in}).cuda();
        cuda::add_grouped_weight_gradient(gemms, sums, dy.cuda(), x.cuda(), counts, false);
        const at::Tensor written = at::full({3, out, in}, std::nan("")).cuda();
        cuda::add_grouped_weight_gradient(gemms, written, dy.cuda(), x.cuda(), {0, 500, 200}, true);
        BOOST_TEST(written[0].abs().sum().item<double>() == 0);
        int64_t begin = 0;
        for (int64_t group = 0; group < 3; ++group) {
            const auto part = [&](const at::Tensor& all) {
                return all.narrow(0, begin, counts[static_cast<size_t>(group)]).to(at::kFloat);
            };
            const at::Tensor weight = weights[group].to(at::kFloat);
            BOOST_TEST(distance(part(y), part(x).mm(weight.t())) < most);
            BOOST_TEST(distance(part(dx), part(dy).mm(weight)) < most);
            BOOST_TEST(distance(sums[group], 1 + part(dy).t().mm(part(x))) < 3e-6);
            begin += counts[static_cast<size_t>(group)];
        }
    }
}

// The kernel for groups is chosen for more rows than any of these has.
BOOST_AUTO_TEST_CASE(sums_over_few_rows_of_a_group, *boost::unit_test::precondition(is_whole)) {
    const Gemms gemms;
    std::vector<int64_t> counts(40);
    std::iota(counts.begin(), counts.end(), int64_t{0});
    const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    for (const auto& [type, out, in] : {std::tuple{at::kFloat, 48, 32},
                                        {at::kFloat, 32, 48},
                                        {at::kFloat, 24, 32},
                                        {at::kFloat, 96, 32},
                                        {at::kFloat, 96, 64},
                                        {at::kBFloat16, 48, 32},
                                        {at::kBFloat16, 32, 48}}) {
        BOOST_TEST_INFO_SCOPE(at::toString(type) << " " << out << " x " << in);
        const at::Tensor x = at::randn({rows, in}).to(type);
        const at::Tensor dy = at::randn({rows, out}).to(type);
        const at::Tensor sums = at::full({40, out, in}, std::nan("")).cuda();
        cuda::add_grouped_weight_gradient(gemms, sums, dy.cuda(), x.cuda(), counts, true);
        int64_t begin = 0;
        for (int64_t group = 1; group < 40; begin += group, ++group) {
            const auto part = [&](const at::Tensor& all) {
                return all.narrow(0, begin, group).to(at::kFloat);
            };
            BOOST_TEST(distance(sums[group], part(dy).t().mm(part(x))) < 3e-6, group << " rows");
        }
    }
}

// Whichever kernel a timing takes, the result is the product.
BOOST_AUTO_TEST_CASE(every_kernel_of_a_product, *boost::unit_test::precondition(is_whole)) {
    constexpr int64_t tokens = 1024;
    constexpr int64_t out = 896;
    constexpr int64_t in = 640;
    const at::Tensor x = at::randn({tokens, in}).to(at::kBFloat16);
    const at::Tensor weight = at::randn({out, in}).to(at::kBFloat16);
    const at::Tensor dy = at::randn({tokens, out}).to(at::kBFloat16);
    const at::Tensor bias = at::randn({out}).to(at::kBFloat16);
    const at::Tensor wide_x = x.to(at::kFloat);
    const at::Tensor wide_weight = weight.to(at::kFloat);
    const at::Tensor wide_dy = dy.to(at::kFloat);
    const Gemms gemms;
    const auto kernels = open_product_kernels(gemms);
    for (const GemmPass pass : gemm_passes) {
        const LayerProduct product{pass, tokens, out, in};
        const int64_t count = kernels->count(product);
        BOOST_TEST(count >= 1);
        for (int64_t kernel = 0; kernel < count; ++kernel) {
            BOOST_TEST_INFO_SCOPE(name_of(product) << ", kernel " << kernel);
            BOOST_TEST(kernels->seconds(product, kernel) > 0);
        }
        kernels->take(product, count - 1);
    }
    BOOST_TEST(distance(cuda::linear(gemms, x.cuda(), weight.cuda(), {}),
                        wide_x.mm(wide_weight.t())) < 4e-3);
    BOOST_TEST(distance(cuda::linear(gemms, x.cuda(), weight.cuda(), bias.cuda()),
                        wide_x.mm(wide_weight.t()) + bias.to(at::kFloat)) < 4e-3);
    BOOST_TEST(distance(cuda::linear_backward_input(gemms, dy.cuda(), weight.cuda()),
                        wide_dy.mm(wide_weight)) < 4e-3);
    // Fewer tokens may take the same kernel.
    for (const int64_t fewer : {tokens - 1, tokens - 100, tokens / 2})
        BOOST_TEST(distance(cuda::linear(gemms, x.narrow(0, 0, fewer).cuda(), weight.cuda(), {}),
                            wide_x.narrow(0, 0, fewer).mm(wide_weight.t())) < 4e-3);
    const at::Tensor expected = wide_dy.t().mm(wide_x);
    const at::Tensor sum = at::full({out, in}, std::nan("")).cuda();
    cuda::add_weight_gradient(gemms, sum, dy.cuda(), x.cuda(), true);
    BOOST_TEST(distance(sum, expected) < 3e-6);
    cuda::add_weight_gradient(gemms, sum, dy.cuda(), x.cuda(), false);
    BOOST_TEST(distance(sum, 2 * expected) < 3e-6);
}

BOOST_AUTO_TEST_CASE(numbers_and_products_in_fp8) {
    const Gemms gemms = Gemms::open().value();
    const auto* const gpu = at::cuda::getCurrentDeviceProperties();
    // compute-sanitizer does not see what cuBLASLt's kernels write with bulk copies.
    const bool has_products = 10 * gpu->major + gpu->minor >= 89 && !is_small();
    for (const auto& [tokens, in, out] :
         {std::array<int64_t, 3>{5, 32, 16}, {1, 1024, 256}, {300, 208, 144}, {777, 896, 1152}}) {
        if (!has_time_for(tokens, std::max(in, out))) continue;
        BOOST_TEST_INFO_SCOPE(tokens << " x " << in << " x " << out);
        const at::Tensor x = random({at::kBFloat16, tokens, in}, tokens, in);
        const at::Tensor dy = random({at::kBFloat16, tokens, out}, tokens, out);
        const at::Tensor weight = random({at::kBFloat16, out, in}, out, in);
        const at::Tensor bias = random({at::kBFloat16, 1, out}, 1, out)[0];
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
            for (const Fp8Scales scales :
                 {Fp8Scales::of_rows, Fp8Scales::of_columns, Fp8Scales::of_tensor})
                BOOST_TEST(cuda::round_to_fp8(weight.cuda(), format, scales, {})
                               .cpu()
                               .equal(cuda::round_to_fp8(weight, format, scales, {})));
            for (const Fp8Scales scales : {Fp8Scales::of_rows, Fp8Scales::of_tensor})
                if (has_products)
                    BOOST_TEST(distance(cuda::fp8_linear_backward_input(
                                            gemms, dy.cuda(), weight.cuda(), format, scales, {}),
                                        cuda::fp8_linear_backward_input(gemms, dy, weight, format,
                                                                        scales, {})) < 4e-3);
        }
        if (!has_products) continue;
        for (const Fp8Scales scales : {Fp8Scales::of_rows, Fp8Scales::of_tensor})
            for (const at::Tensor& added : {at::Tensor(), bias})
                BOOST_TEST(
                    distance(cuda::fp8_linear(gemms, x.cuda(), weight.cuda(),
                                              added.defined() ? added.cuda() : added, scales, {}),
                             cuda::fp8_linear(gemms, x, weight, added, scales, {})) < 4e-3);
    }
}

BOOST_AUTO_TEST_CASE(delayed_scales_and_maxima) {
    for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{5, 32}, {777, 1152}}) {
        if (!has_time_for(tokens, width)) continue;
        const at::Tensor x = random({at::kBFloat16, tokens, width}, tokens, width) * 100;
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
            const auto round = [&](const at::Tensor& numbers, const at::Tensor& maximum) {
                const DelayedScale delayed{at::full({1}, 3, maximum.options()), maximum,
                                           tokens - 2};
                return cuda::round_to_fp8(numbers, format, Fp8Scales::of_tensor, delayed);
            };
            const at::Tensor on_host = at::zeros({1}, at::kInt);
            const at::Tensor on_gpu = on_host.cuda();
            BOOST_TEST(round(x.cuda(), on_gpu).cpu().equal(round(x, on_host)));
            BOOST_TEST(on_gpu.item<int32_t>() == on_host.item<int32_t>());
        }
    }
}

BOOST_AUTO_TEST_CASE(attention_is_merged) {
    const SeenKeys host{at::randn({2, 9, 3, 64}), at::randn({2, 9, 3})};
    const SeenKeys more{at::randn({2, 9, 3, 64}).to(at::kBFloat16), at::randn({2, 9, 3})};
    const SeenKeys gpu{host.out.cuda(), host.lse.cuda()};
    cuda::merge_attention(host, more);
    cuda::merge_attention(gpu, {more.out.cuda(), more.lse.cuda()});
    BOOST_TEST(distance(gpu.out, host.out) < 1e-6);
    BOOST_TEST(distance(gpu.lse, host.lse) < 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
