// Attention within documents, at once and in the steps of a ring, against autograd in double
// precision.
#include "local_attention.hpp"

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"

using namespace ringshard;
using namespace ringshard::attention;

namespace {

struct Shape {
    int64_t tokens, query_heads, key_heads, head_dim;
    std::vector<int64_t> document_starts;
    int64_t ring;
};

// The dense form: [h, t, t] scores under an explicit mask.
at::Tensor plain(const Shape& shape, const Heads& wide) {
    const int64_t group = shape.query_heads / shape.key_heads;
    const at::Tensor q = wide.q.transpose(0, 1);
    const at::Tensor k = wide.k.repeat_interleave(group, 1).transpose(0, 1);
    const at::Tensor v = wide.v.repeat_interleave(group, 1).transpose(0, 1);
    const at::Tensor document = at::zeros({shape.tokens}, at::kLong);
    for (const int64_t start : shape.document_starts)
        document.narrow(0, start, shape.tokens - start).add_(1);
    const at::Tensor sees = at::ones({shape.tokens, shape.tokens}).tril().to(at::kBool) &
                            (document.unsqueeze(0) == document.unsqueeze(1));
    const at::Tensor scores =
        at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(shape.head_dim));
    const at::Tensor masked =
        scores.masked_fill(sees.logical_not(), -std::numeric_limits<double>::infinity());
    return at::matmul(at::softmax(masked, -1), v).transpose(0, 1);
}

at::Tensor part(const at::Tensor& whole, const Layout& layout) {
    std::vector<at::Tensor> runs;
    for (const Run& run : layout) runs.push_back(whole.narrow(0, run.start, run.length));
    return at::cat(runs);
}

void add_part(const at::Tensor& whole, const Layout& layout, const at::Tensor& mine) {
    int64_t at = 0;
    for (const Run& run : layout) {
        whole.narrow(0, run.start, run.length).add_(mine.narrow(0, at, run.length));
        at += run.length;
    }
}

void check(const Shape& shape, at::ScalarType type) {
    const auto random = [&](int64_t heads) {
        return at::randn({shape.tokens, heads, shape.head_dim}, type);
    };
    const Heads heads{random(shape.query_heads), random(shape.key_heads), random(shape.key_heads)};
    const at::Tensor d_out = random(shape.query_heads);
    const Heads wide{test::leaf(heads.q), test::leaf(heads.k), test::leaf(heads.v)};
    const at::Tensor expected = plain(shape, wide);
    test::backward(expected, d_out);

    const at::Tensor out = at::zeros_like(d_out, at::kFloat);
    const at::Tensor dq = at::zeros_like(out);
    const at::Tensor dk = at::zeros_like(heads.k, at::kFloat);
    const at::Tensor dv = at::zeros_like(dk);
    const SequencePartition partition(shape.tokens, shape.document_starts, shape.ring, 1);
    BOOST_REQUIRE(partition.filled_length() == shape.tokens);
    for (int64_t rank = 0; rank < shape.ring; ++rank) {
        const Layout mine = partition.of_ring_rank(rank);
        const Plan plan = make_plan(partition, rank);
        const auto meeting = [&](int64_t step) {
            const Layout there = partition.of_ring_rank((rank + shape.ring - step) % shape.ring);
            return std::pair(
                there, Heads{part(heads.q, mine), part(heads.k, there), part(heads.v, there)});
        };
        const LocalAttention local = local_attention_of(heads.q);
        Partial partial = make_partial(meeting(0).second, plan);
        for (int64_t step = 0; step < shape.ring; ++step)
            local.attend(meeting(step).second, plan.steps[static_cast<size_t>(step)],
                         plan.meets_once ? Into::fresh : Into::sums, partial);
        partial.out = partial.out.to(type);  // as a block keeps it
        add_part(out, mine, partial.out);

        for (int64_t step = 0; step < shape.ring; ++step) {
            const auto [there, met] = meeting(step);
            const Into into = plan.meets_once ? Into::fresh : Into::sums;
            const auto sum_type = plan.meets_once ? type : at::kFloat;
            const HeadGradients gradients{at::zeros_like(met.q, sum_type),
                                          at::zeros_like(met.k, sum_type),
                                          at::zeros_like(met.v, sum_type)};
            local.attend_backward(part(d_out, mine), met, partial,
                                  plan.steps[static_cast<size_t>(step)], into, gradients);
            add_part(dq, mine, gradients.dq);
            add_part(dk, there, gradients.dk);
            add_part(dv, there, gradients.dv);
        }
    }
    const double tolerance = test::tolerance(type);
    BOOST_TEST(test::distance(out, expected) < tolerance);
    BOOST_TEST(test::distance(dq, wide.q.grad()) < tolerance);
    BOOST_TEST(test::distance(dk, wide.k.grad()) < tolerance);
    BOOST_TEST(test::distance(dv, wide.v.grad()) < tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(is_that_of_autograd) {
    at::manual_seed(5);
    const std::vector<Shape> shapes{
        {2, 1, 1, 8, {0}, 1},
        {96, 4, 2, 16, {0}, 1},
        {96, 4, 1, 16, {0, 1, 40, 41, 90}, 1},
        {128, 2, 2, 32, {0, 32, 64, 96}, 1},  // equal documents are one call
        {96, 4, 2, 16, {0}, 2},
        {96, 4, 2, 24, {0, 17, 18, 60}, 2},
        {160, 6, 3, 16, {0, 5, 90, 91, 158}, 4},
        {176, 4, 2, 16, {0, 150, 151, 153, 170}, 2},  // cut document by document, like the next
        {176, 4, 2, 16, {0, 1, 3, 150, 170}, 4},
        {700, 2, 1, 64, {0, 650}, 1},  // long enough for another way back in bf16
    };
    for (const Shape& shape : shapes)
        for (const auto type : {at::kFloat, at::kBFloat16}) {
            BOOST_TEST_INFO_SCOPE(shape.tokens << " tokens, ring of " << shape.ring << ", "
                                               << at::toString(type));
            check(shape, type);
        }
}

// FlashAttention-2 and cuDNN: fp32 sums of dq and a number for each row and head; dk and dv of
// every query head where they share key heads.
BOOST_AUTO_TEST_CASE(a_gpu_takes_a_workspace) {
    const auto bytes_of = [](int64_t tokens, int64_t query_heads, int64_t key_heads) {
        const auto bf16 = at::TensorOptions(at::kMeta).dtype(at::kBFloat16);
        const at::Tensor q = at::empty({2, tokens, query_heads, 64}, bf16);
        const at::Tensor k = at::empty({2, 3 * tokens, key_heads, 64}, bf16);
        return meta::workspace_of_cuda_backward({q, k, k, false});
    };
    const int64_t sums = int64_t{2} * 100 * 8 * (64 + 1) * 4;
    BOOST_TEST(bytes_of(100, 8, 8) == sums);
    BOOST_TEST(bytes_of(100, 8, 2) == sums + 2 * (2 * 300 * 8 * 64) * 2);
}
