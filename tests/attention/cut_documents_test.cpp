// Documents that are cut in two calls, by the kernels of a GPU, beside the same ones in one call.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "local_attention.hpp"
#include "tile_pack.hpp"

using namespace ringshard;
using namespace ringshard::attention;

namespace {

struct Result {
    at::Tensor out, lse, rows;
    HeadGradients gradients;
};

constexpr int64_t tokens = 330;
constexpr int64_t query_heads = 4;
constexpr int64_t key_heads = 2;
constexpr int64_t head_dim = 16;

// finishes: the gradients go into rows of queries, keys and values.
Result attention_of(const Heads& heads, const at::Tensor& d_out, const Plan& plan,
                    int64_t cuts_from, Into into, bool finishes) {
    const std::vector<Tile>& tiles = plan.steps.front();
    const auto prepared = cuda::prepare(tiles, at::kCPU, cuts_from);
    const StepTiles step(tiles, prepared.get());
    Result result;
    Partial partial = make_partial(heads, plan);
    cuda::attend(heads, step, into, partial);
    result.out = partial.out;
    result.lse = partial.lse;
    const int64_t width = (query_heads + 2 * key_heads) * head_dim;
    result.rows = at::zeros({tokens, width});
    result.gradients = {at::zeros_like(heads.q), at::zeros_like(heads.k), at::zeros_like(heads.v)};
    HeadGradients gradients = result.gradients;
    if (finishes) gradients.rows = result.rows;
    cuda::attend_backward(d_out, heads, partial, step, into, gradients);
    return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(documents_that_are_cut_have_the_results_of_whole_ones) {
    at::manual_seed(7);
    const auto random = [](int64_t count) { return at::randn({tokens, count, head_dim}); };
    const Heads heads{random(query_heads), random(key_heads), random(key_heads)};
    const at::Tensor d_out = random(query_heads);
    // Lengths 40, 150, 1, 139: of the second and the last most is one call.
    const SequencePartition partition(tokens, {0, 40, 190, 191}, 1, 1);
    const auto packs = pack_tiles(make_plan(partition, 0).steps.front(), 100);
    BOOST_TEST(std::ranges::count_if(
                   packs, [](const auto& pack) { return pack.behind.has_value(); }) == 2);
    for (const bool is_merged : {false, true}) {
        Plan plan = make_plan(partition, 0);
        plan.meets_once = !is_merged;
        const Into into = is_merged ? Into::sums : Into::fresh;
        for (const bool finishes : {false, true}) {
            if (is_merged && finishes) continue;
            const Result whole = attention_of(heads, d_out, plan, no_cuts, into, finishes);
            const Result cut = attention_of(heads, d_out, plan, 100, into, finishes);
            BOOST_TEST_INFO_SCOPE("merged " << is_merged << ", finishes " << finishes);
            BOOST_TEST(test::distance(cut.out, whole.out) < 1e-6);
            BOOST_TEST(test::distance(cut.lse, whole.lse) < 1e-6);
            if (finishes) {
                BOOST_TEST(test::distance(cut.rows, whole.rows) < 1e-6);
                continue;
            }
            BOOST_TEST(test::distance(cut.gradients.dq, whole.gradients.dq) < 1e-6);
            BOOST_TEST(test::distance(cut.gradients.dk, whole.gradients.dk) < 1e-6);
            BOOST_TEST(test::distance(cut.gradients.dv, whole.gradients.dv) < 1e-6);
        }
    }
}

// Sorted documents have several calls, each with the documents of about one length.
BOOST_AUTO_TEST_CASE(calls_of_sorted_documents_have_the_results_of_one_call) {
    at::manual_seed(9);
    constexpr int64_t long_ones = 2;
    constexpr int64_t length = 129;  // two blocks, and 36 short ones of one each
    const auto random = [](int64_t count) { return at::randn({tokens, count, head_dim}); };
    const Heads heads{random(query_heads), random(key_heads), random(key_heads)};
    const at::Tensor d_out = random(query_heads);
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < long_ones; ++i) starts.push_back(i * length);
    for (int64_t begin = long_ones * length; begin < tokens; begin += 2) starts.push_back(begin);
    const SequencePartition partition(tokens, starts, 1, 1);
    const Plan plan = make_plan(partition, 0);
    BOOST_TEST(pack_tiles(plan.steps.front()).size() == 2U);
    const Result cut = attention_of(heads, d_out, plan, no_cuts, Into::fresh, false);
    // The same documents the other way round, which are one call.
    const auto turned = [&](const at::Tensor& rows) {
        std::vector<at::Tensor> parts;
        for (size_t i = starts.size(); i-- > 0;)
            parts.push_back(
                rows.slice(0, starts[i], i + 1 < starts.size() ? starts[i + 1] : tokens));
        return at::cat(parts);
    };
    std::vector<int64_t> back;
    for (int64_t begin = 0; begin < tokens - long_ones * length; begin += 2) back.push_back(begin);
    for (int64_t i = long_ones; i > 0; --i) back.push_back(tokens - i * length);
    const Plan one_call = make_plan(SequencePartition(tokens, back, 1, 1), 0);
    BOOST_TEST(pack_tiles(one_call.steps.front()).size() == 1U);
    const Result one = attention_of({turned(heads.q), turned(heads.k), turned(heads.v)},
                                    turned(d_out), one_call, no_cuts, Into::fresh, false);
    BOOST_TEST(at::equal(turned(cut.out), one.out));
    BOOST_TEST(at::equal(turned(cut.lse), one.lse));
    BOOST_TEST(at::equal(turned(cut.gradients.dq), one.gradients.dq));
    BOOST_TEST(at::equal(turned(cut.gradients.dk), one.gradients.dk));
    BOOST_TEST(at::equal(turned(cut.gradients.dv), one.gradients.dv));
}
