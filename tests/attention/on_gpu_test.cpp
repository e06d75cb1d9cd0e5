// Attention on a GPU: every kernel against autograd in double precision, whole, in tiles and
// backward from merged results.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "local_attention.hpp"

using namespace ringshard;
using namespace ringshard::attention;

namespace {

at::Tensor by_definition(const Heads& wide, const std::vector<int64_t>& starts) {
    const int64_t tokens = wide.q.size(0);
    const int64_t repeats = wide.q.size(1) / wide.k.size(1);
    const at::Tensor document = at::zeros({tokens}, at::kLong);
    for (const int64_t start : starts) document.narrow(0, start, tokens - start).add_(1);
    const at::Tensor sees = at::ones({tokens, tokens}).tril().to(at::kBool) &
                            (document.unsqueeze(0) == document.unsqueeze(1));
    const at::Tensor scores = at::matmul(wide.q.transpose(0, 1),
                                         wide.k.repeat_interleave(repeats, 1).permute({1, 2, 0})) /
                              std::sqrt(static_cast<double>(wide.q.size(2)));
    const at::Tensor masked =
        scores.masked_fill(sees.logical_not(), -std::numeric_limits<double>::infinity());
    return at::matmul(at::softmax(masked, -1), wide.v.repeat_interleave(repeats, 1).transpose(0, 1))
        .transpose(0, 1);
}

// low: around -120, as some heads of Qwen2.5 have them: exp(-lse) is more than fp32 holds.
enum class Scores { usual, low };

void make_low(const Heads& heads) {
    heads.q.select(2, 0).fill_(1);
    heads.k.select(2, 0).fill_(-120 * std::sqrt(static_cast<double>(heads.q.size(2))));
}

// As a block has them: queries, keys and values are columns of the same rows.
Heads in_rows(const Heads& heads) {
    const int64_t width = heads.q.size(2);
    const at::Tensor rows = at::cat({heads.q, heads.k, heads.v}, 1).flatten(1);
    const auto columns = [&](int64_t first, int64_t count) {
        return rows.narrow(1, first * width, count * width).view({rows.size(0), count, width});
    };
    const int64_t q = heads.q.size(1);
    const int64_t k = heads.k.size(1);
    return {columns(0, q), columns(q, k), columns(q + k, k)};
}

// Where the documents of these lengths begin.
std::vector<int64_t> starts_of(const std::vector<int64_t>& lengths) {
    std::vector<int64_t> starts{0};
    for (size_t i = 0; i + 1 < lengths.size(); ++i) starts.push_back(starts.back() + lengths[i]);
    return starts;
}

// ring 1: whole; 2: one rank of a ring plays both, so that results are merged. The tokens fill the
// partition, which has 2 x ring equal chunks.
void check(const std::vector<int64_t>& starts, int64_t tokens, int64_t head_dim, int64_t ring,
           at::ScalarType type, Scores scores = Scores::usual) {
    BOOST_TEST_INFO_SCOPE(tokens << " tokens, " << starts.size() << " documents, ring of " << ring
                                 << ", head_dim " << head_dim << ", " << at::toString(type));
    const auto random = [&](int64_t heads) {
        return at::randn({tokens, heads, head_dim}).to(type);
    };
    const Heads heads{random(4), random(2), random(2)};
    if (scores == Scores::low) make_low(heads);
    const at::Tensor d_out = random(4);
    const Heads wide{test::leaf(heads.q), test::leaf(heads.k), test::leaf(heads.v)};
    const at::Tensor expected = by_definition(wide, starts);
    test::backward(expected, d_out);

    const at::Tensor out = at::zeros_like(d_out, at::kFloat);
    const at::Tensor dq = at::zeros_like(out);
    const at::Tensor dk = at::zeros_like(heads.k, at::kFloat);
    const at::Tensor dv = at::zeros_like(dk);
    const SequencePartition partition(tokens, starts, ring, 1);
    const auto part = [](const at::Tensor& whole, const Layout& layout) {
        std::vector<at::Tensor> runs;
        for (const Run& run : layout) runs.push_back(whole.narrow(0, run.start, run.length));
        return at::cat(runs).cuda();
    };
    const auto add_part = [](const at::Tensor& whole, const Layout& layout,
                             const at::Tensor& mine) {
        int64_t at = 0;
        for (const Run& run : layout) {
            whole.narrow(0, run.start, run.length).add_(mine.narrow(0, at, run.length).cpu());
            at += run.length;
        }
    };
    for (int64_t rank = 0; rank < ring; ++rank) {
        const Layout mine = partition.of_ring_rank(rank);
        const Plan plan = make_plan(partition, rank);
        const Into into = plan.meets_once ? Into::fresh : Into::sums;
        const auto there = [&](int64_t step) {
            return partition.of_ring_rank((rank + ring - step) % ring);
        };
        const auto met = [&](int64_t step) {
            const Heads apart{part(heads.q, mine), part(heads.k, there(step)),
                              part(heads.v, there(step))};
            return ring == 1 ? in_rows(apart) : apart;
        };
        const LocalAttention local = local_attention_of(met(0).q);
        Partial partial = make_partial(met(0), plan);
        for (int64_t step = 0; step < ring; ++step)
            local.attend(met(step), plan.steps[static_cast<size_t>(step)], into, partial);
        partial.out = partial.out.to(type);
        add_part(out, mine, partial.out);
        for (int64_t step = 0; step < ring; ++step) {
            const Heads here = met(step);
            const auto sum_type = plan.meets_once ? type : at::kFloat;
            const HeadGradients gradients{at::zeros_like(here.q, sum_type),
                                          at::zeros_like(here.k, sum_type),
                                          at::zeros_like(here.v, sum_type)};
            local.attend_backward(part(d_out, mine), here, partial,
                                  plan.steps[static_cast<size_t>(step)], into, gradients);
            add_part(dq, mine, gradients.dq);
            add_part(dk, there(step), gradients.dk);
            add_part(dv, there(step), gradients.dv);
        }
    }
    const double tolerance = test::tolerance(type);
    BOOST_TEST(test::distance(out, expected) < tolerance);
    BOOST_TEST(test::distance(dv, wide.v.grad()) < tolerance);
    if (scores == Scores::low) {  // of large keys that cancel out, little is left in bf16
        BOOST_TEST(dq.isfinite().all().item<bool>());
        BOOST_TEST(dk.isfinite().all().item<bool>());
        return;
    }
    BOOST_TEST(test::distance(dq, wide.q.grad()) < tolerance);
    BOOST_TEST(test::distance(dk, wide.k.grad()) < tolerance);
}

}  // namespace

BOOST_AUTO_TEST_CASE(kernels_give_what_autograd_gives) {
    at::manual_seed(5);
    for (const auto type : {at::kBFloat16, at::kFloat})
        for (const int64_t head_dim : {64, 128, 100}) {
            if (head_dim % 8 != 0 && type == at::kFloat) continue;
            check({0}, 512, head_dim, 1, type);                  // cuDNN on Hopper
            check({0, 128, 256, 384}, 512, head_dim, 1, type);   // a batch
            check({0, 1, 40, 41, 300}, 334, head_dim, 1, type);  // documents of all lengths
            check({0}, 512, head_dim, 2, type);                  // merged
            check({0, 17, 18, 300}, 512, head_dim, 2, type);
            // One row, whose batch has the stride of a token, beside several of its length.
            for (const int64_t rows : {1, 3})
                check(starts_of(std::vector<int64_t>(rows, 192)), rows * 192, head_dim, 1, type);
            // In order of length, with a call for each of two lengths.
            std::vector<int64_t> lengths(2, 600);
            lengths.resize(62, 10);
            check(starts_of(lengths), 1800, head_dim, 1, type);
        }
}

// Lengths that fill half of the last tile of cuDNN's 128.
BOOST_AUTO_TEST_CASE(low_scores_leave_gradients_finite) {
    at::manual_seed(6);
    for (const int64_t head_dim : {64, 128}) {
        check({0}, 704, head_dim, 1, at::kBFloat16, Scores::low);
        check({0, 192}, 384, head_dim, 1, at::kBFloat16, Scores::low);
        check({0}, 768, head_dim, 2, at::kBFloat16, Scores::low);
        check({0, 1, 40, 41, 300}, 334, head_dim, 1, at::kBFloat16, Scores::low);
    }
}

namespace {

// One document of any length, against FlashAttention-2: autograd's scores would not fit a GPU.
void check_against_flash(int64_t tokens, Scores scores) {
    BOOST_TEST_INFO_SCOPE(tokens << " tokens");
    const auto random = [&](int64_t heads) {
        return at::randn({tokens, heads, 64}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
    };
    const Heads heads{random(4), random(2), random(2)};
    if (scores == Scores::low) make_low(heads);
    const at::Tensor d_out = random(4);
    Plan plan;
    plan.steps = {{{0, 0, tokens, tokens, ops::causal}}};
    plan.num_tokens = tokens;
    plan.meets_once = true;
    const LocalAttention local = local_attention_of(heads.q);
    Partial partial = make_partial(heads, plan);
    local.attend(heads, plan.steps.front(), Into::fresh, partial);
    const HeadGradients gradients{at::empty_like(heads.q), at::empty_like(heads.k),
                                  at::empty_like(heads.v)};
    local.attend_backward(d_out, heads, partial, plan.steps.front(), Into::fresh, gradients);

    const auto row = [](const at::Tensor& x) { return x.unsqueeze(0); };
    const auto flash = at::_flash_attention_forward(row(heads.q), row(heads.k), row(heads.v), {},
                                                    {}, tokens, tokens, 0.0, true, false);
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        row(d_out), row(heads.q), row(heads.k), row(heads.v), std::get<0>(flash),
        std::get<1>(flash), {}, {}, tokens, tokens, 0.0, true, at::zeros({2}, at::kLong).cuda(),
        at::zeros({2}, at::kLong).cuda());
    BOOST_TEST(test::distance(row(partial.out), std::get<0>(flash)) <
               test::tolerance(at::kBFloat16));
    BOOST_TEST(test::distance(row(gradients.dv), dv) < test::tolerance(at::kBFloat16));
    for (const at::Tensor& gradient : {gradients.dq, gradients.dk, gradients.dv})
        BOOST_TEST(gradient.isfinite().all().item<bool>());
    if (scores == Scores::low) return;
    BOOST_TEST(test::distance(row(gradients.dq), dq) < test::tolerance(at::kBFloat16));
    BOOST_TEST(test::distance(row(gradients.dk), dk) < test::tolerance(at::kBFloat16));
}

}  // namespace

// Lengths of documents, which fill the last of cuDNN's tiles by a few tokens; on Hopper it takes
// the second (a multiple of 64) and the third (more than 2^32 pairs).
BOOST_AUTO_TEST_CASE(long_documents_of_odd_lengths) {
    at::manual_seed(7);
    for (const int64_t tokens : {16'411, 16'448, 65'599})
        for (const Scores scores : {Scores::usual, Scores::low})
            check_against_flash(tokens, scores);
}
