// The kernels through which states pass give the same result on a GPU and on the host.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "backends.hpp"
#include "on_gpu.hpp"
#include "ringshard/ops/delta_rule.hpp"

using namespace ringshard;
using namespace ringshard::ops;
using test::distance;

BOOST_AUTO_TEST_SUITE(states_on_gpu)

BOOST_AUTO_TEST_CASE(convolutions_both_ways) {
    constexpr int64_t columns = 130;
    const std::vector<Stretch> stretches{{0, 1}, {1, 2}, {3, 300}, {303, 214}};
    for (const auto& [type, has_silu] : {std::pair{at::kFloat, true},
                                         {at::kBFloat16, true},
                                         {at::kFloat, false},
                                         {at::kBFloat16, false}}) {
        const double tolerance = type == at::kFloat ? 1e-5 : 4e-3;
        const at::Tensor x = at::randn({517, columns}).to(type);
        const at::Tensor dy = at::randn({517, columns});
        const at::Tensor weight = at::randn({columns, 1, 4}).to(type);
        const at::Tensor bias = at::randn({columns}).to(type);
        const at::Tensor before = at::randn({4, 3, columns}).to(type);
        const CausalConv host{weight, stretches, before, bias, has_silu};
        const CausalConv gpu{weight.cuda(), stretches, before.cuda(), bias.cuda(), has_silu};
        BOOST_TEST(distance(cuda::causal_conv(x.cuda(), gpu), cuda::causal_conv(x, host)) <
                   tolerance);
        const at::Tensor dx = at::zeros({517, columns});
        const at::Tensor d_weight = at::ones({columns, 1, 4});
        const at::Tensor d_bias = at::ones({columns});
        const at::Tensor gpu_dx = dx.cuda();
        const at::Tensor gpu_weight = d_weight.cuda();
        const at::Tensor gpu_bias = d_bias.cuda();
        const at::Tensor d_before = cuda::causal_conv_backward(dy, x, host, dx, d_weight, d_bias);
        const at::Tensor gpu_before =
            cuda::causal_conv_backward(dy.cuda(), x.cuda(), gpu, gpu_dx, gpu_weight, gpu_bias);
        BOOST_TEST(distance(gpu_before, d_before) < 1e-5);
        BOOST_TEST(distance(gpu_dx, dx) < 1e-5);
        BOOST_TEST(distance(gpu_weight, d_weight) < 1e-4);
        BOOST_TEST(distance(gpu_bias, d_bias) < 1e-4);
    }
}

BOOST_AUTO_TEST_CASE(inverses_of_triangles) {
    const at::Tensor below = (0.1 * at::randn({7, 3, chunk_tokens, chunk_tokens})).tril(-1);
    BOOST_TEST(distance(cuda::invert_unit_triangles(below.cuda()),
                        cuda::invert_unit_triangles(below)) < 1e-5);
}

BOOST_AUTO_TEST_CASE(states_from_chunk_to_chunk) {
    constexpr int64_t chunks = 9;
    constexpr int64_t heads = 5;
    constexpr int64_t dk = 36;  // no whole tiles
    constexpr int64_t dv = 47;
    const std::vector<ChunkLayout::Chunks> stretches{{0, 4}, {4, 5}, {5, chunks}};
    const at::Tensor reader = 0.1 * at::randn({chunks, heads, chunk_tokens, dk});
    const at::Tensor writer = 0.1 * at::randn({chunks, heads, chunk_tokens, dk});
    const at::Tensor values = at::randn({chunks, heads, chunk_tokens, dv});
    const at::Tensor added = at::randn({chunks, heads, dk, dv});
    const at::Tensor first = at::randn({3, heads, dk, dv});
    for (const auto& [is_backwards, decays] : {std::pair(false, 1), {true, 1}, {true, 36}}) {
        const at::Tensor whole = at::rand({chunks, heads, decays, 1});
        const at::Tensor more = is_backwards ? added : at::Tensor();
        const Walk host =
            cuda::delta_walk({reader, writer, whole, values, more, first, stretches, is_backwards});
        const Walk gpu = cuda::delta_walk({reader.cuda(), writer.cuda(), whole.cuda(),
                                           values.cuda(), more.defined() ? more.cuda() : more,
                                           first.cuda(), stretches, is_backwards});
        BOOST_TEST(distance(gpu.states, host.states) < 1e-5);
        BOOST_TEST(distance(gpu.values, host.values) < 1e-5);
        BOOST_TEST(distance(gpu.last, host.last) < 1e-5);
        if (decays > 1) continue;
        const StateWalk alone = cuda::state_walk({whole, added, first, stretches, is_backwards});
        const StateWalk gpu_alone =
            cuda::state_walk({whole.cuda(), added.cuda(), first.cuda(), stretches, is_backwards});
        BOOST_TEST(distance(gpu_alone.states, alone.states) < 1e-5);
        BOOST_TEST(distance(gpu_alone.last, alone.last) < 1e-5);
    }
}

DeltaHeads heads_on(at::Device device, const DeltaHeads& heads) {
    return {heads.q.to(device),         heads.k.to(device),    heads.v.to(device),
            heads.log_decay.to(device), heads.beta.to(device), heads.rule};
}

DeltaHeads random_heads(int64_t tokens, StateRule rule) {
    return {at::randn({tokens, 2, 128}),
            at::randn({tokens, 2, 128}),
            at::randn({tokens, 4, 64}),
            at::rand({tokens, 4, rule == StateRule::delta_by_row ? 128 : 1}).pow(4).mul_(-3),
            at::rand({tokens, 4}),
            rule};
}

// The whole rule, whose other operators are LibTorch's, against the host's.
BOOST_AUTO_TEST_CASE(rules_both_ways) {
    const std::vector<Stretch> stretches{{0, 3}, {3, 5000}, {5003, 130}};
    for (const StateRule rule : {StateRule::delta, StateRule::delta_by_row, StateRule::additive}) {
        const DeltaHeads host = random_heads(5133, rule);
        const DeltaHeads gpu = heads_on(at::kCUDA, host);
        const at::Tensor between = make_between(host, stretches);
        const at::Tensor gpu_between = make_between(gpu, stretches);
        const at::Tensor out = delta_rule(host, stretches, {{}, {}, between});
        BOOST_TEST(distance(delta_rule(gpu, stretches, {{}, {}, gpu_between}), out) < 1e-5);
        const at::Tensor d_out = at::randn(out.sizes());
        const DeltaHeads d_host = random_heads(5133, rule);
        const DeltaHeads d_gpu = heads_on(at::kCUDA, d_host);
        delta_rule_backward(host, stretches, {{}, {}, between}, d_out, d_host);
        delta_rule_backward(gpu, stretches, {{}, {}, gpu_between}, d_out.cuda(), d_gpu);
        for (const auto& [ours, theirs] : {std::pair(d_gpu.q, d_host.q),
                                           {d_gpu.k, d_host.k},
                                           {d_gpu.v, d_host.v},
                                           {d_gpu.beta, d_host.beta},
                                           {d_gpu.log_decay, d_host.log_decay}})
            BOOST_TEST(distance(ours, theirs) < 1e-4);
    }
}

BOOST_AUTO_TEST_SUITE_END()
