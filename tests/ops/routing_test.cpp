// Routers, and products of rows that are grouped by expert.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <limits>

#include "autograd.hpp"
#include "ringshard/ops/grouped_linear.hpp"
#include "ringshard/ops/routing.hpp"

using namespace ringshard;
using namespace ringshard::ops;

namespace {

std::vector<int64_t> numbers(const at::Tensor& tensor) {
    const at::Tensor flat = tensor.contiguous().flatten();
    const auto* const first = flat.const_data_ptr<int64_t>();
    return {first, first + flat.numel()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_lie_by_expert_in_the_order_of_tokens) {
    const at::Tensor experts = at::tensor({0, 2, 2, 3, 0, 3}, at::kLong).view({3, 2});
    const ExpertRows rows = rows_by_expert(experts, 5);
    BOOST_TEST(rows.counts == (std::vector<int64_t>{2, 0, 2, 2, 0}),
               boost::test_tools::per_element());
    BOOST_TEST(numbers(rows.tokens) == (std::vector<int64_t>{0, 2, 0, 1, 1, 2}),
               boost::test_tools::per_element());
    BOOST_TEST(numbers(rows.choices) == (std::vector<int64_t>{0, 4, 1, 2, 3, 5}),
               boost::test_tools::per_element());
    BOOST_TEST(numbers(rows.places) == (std::vector<int64_t>{0, 2, 3, 4, 1, 5}),
               boost::test_tools::per_element());
    const at::Tensor values = at::tensor({1.0F, 2.0F, 4.0F, 8.0F, 16.0F, 32.0F}).unsqueeze(1);
    BOOST_TEST(
        sum_of_experts(values, rows.places).flatten().equal(at::tensor({5.0F, 24.0F, 34.0F})));
}

// In fp32, one after the other, and rounded once.
BOOST_AUTO_TEST_CASE(a_token_adds_the_rows_of_its_experts_in_their_order) {
    at::manual_seed(5);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
        for (const int64_t per_token : {1, 2, 8}) {
            const at::Tensor rows = at::randn({40 * per_token, 19}).to(type);
            const at::Tensor places = at::randperm(40 * per_token, at::kLong).view({40, per_token});
            at::Tensor sum = at::zeros({40, 19});
            for (int64_t choice = 0; choice < per_token; ++choice)
                sum.add_(rows.index({places.select(1, choice)}));
            BOOST_TEST(sum_of_experts(rows, places).equal(sum.to(type)));
            BOOST_TEST(take_rows(rows, places.flatten()).equal(rows.index({places.flatten()})));
        }
    const at::Tensor flat = at::arange(9, at::kLong);
    BOOST_TEST(take_rows(flat, flat.flip(0)).equal(flat.flip(0)));
    // The stride of a tensor of one row says nothing.
    const at::Tensor one = at::randn({3, 4}).as_strided({1, 4}, {100, 1});
    BOOST_TEST(take_rows(one, at::zeros({2}, at::kLong)).equal(one.expand({2, 4})));
}

// torch.topk alone decides: the experts of a token depend on its own probabilities.
BOOST_AUTO_TEST_CASE(equal_probabilities_are_decided_as_by_topk) {
    at::manual_seed(1);
    for (const int64_t num_experts : {4, 8, 64, 128, 600}) {
        // Few values, so that nearly every row has ties.
        const at::Tensor logits = at::randint(0, 4, {50, num_experts}, at::kFloat);
        const at::Tensor probabilities = router_probabilities(logits, {});
        const at::Tensor experts = choose_experts(probabilities, 3, {});
        for (int64_t token = 0; token < 50; ++token) {
            const at::Tensor alone =
                std::get<1>(at::topk(at::softmax(logits[token], 0), 3)).unsqueeze(0);
            BOOST_TEST(std::get<0>(alone.sort(1)).equal(experts.narrow(0, token, 1)));
        }
    }
}

// Groups by the sum of their two best experts, with corrections that reach no weight.
BOOST_AUTO_TEST_CASE(experts_are_chosen_in_groups) {
    const RouterForm form{
        .is_sigmoid = true, .normalises = true, .scaling = 2, .groups = 3, .chosen_groups = 1};
    const at::Tensor probabilities = at::tensor({0.9F, 0.1F, 0.5F, 0.6F, 0.2F, 0.3F}).unsqueeze(0);
    const auto chosen = [&](const at::Tensor& correction) {
        return numbers(choose_experts(probabilities, 2, form, correction).flatten());
    };
    BOOST_TEST(chosen({}) == (std::vector<int64_t>{2, 3}), boost::test_tools::per_element());
    const at::Tensor correction = at::tensor({0.0F, 0.0F, 0.0F, 0.0F, 0.4F, 0.4F});
    BOOST_TEST(chosen(correction) == (std::vector<int64_t>{4, 5}),
               boost::test_tools::per_element());
    const at::Tensor weights =
        expert_weights(probabilities, at::tensor({4L, 5L}).unsqueeze(0), form);
    BOOST_TEST(test::distance(weights, at::tensor({0.8F, 1.2F}).unsqueeze(0)) < 1e-6);
}

BOOST_AUTO_TEST_CASE(a_router_has_the_gradient_of_autograd) {
    at::manual_seed(2);
    for (const RouterForm& form :
         {RouterForm{}, RouterForm{.normalises = true},
          RouterForm{.normalises = true, .least_sum = 0.4, .scaling = 1.5},
          RouterForm{.is_sigmoid = true, .normalises = true, .added_to_sum = 1e-20, .scaling = 2},
          RouterForm{.is_sigmoid = true}}) {
        const at::Tensor logits = at::randn({9, 6});
        const at::Tensor d_weights = at::randn({9, 2});
        const at::Tensor d_probability = at::randn({6});
        const at::Tensor probabilities = router_probabilities(logits, form);
        const at::Tensor experts = choose_experts(probabilities, 2, form);
        const at::Tensor gradient =
            router_backward({d_weights, d_probability, 7}, probabilities, experts, form);

        const at::Tensor x = test::leaf(logits);
        const at::Tensor p = form.is_sigmoid ? x.sigmoid() : x.softmax(1);
        at::Tensor weights = p.gather(1, experts);
        if (form.normalises)
            weights =
                weights / (weights.sum(1, true).clamp_min(form.least_sum) + form.added_to_sum);
        weights = weights * form.scaling;
        ((weights * d_weights).sum() + (p.narrow(0, 0, 7) * d_probability).sum()).backward();
        BOOST_TEST(test::distance(gradient, x.grad()) < 2e-6);
    }
}

BOOST_AUTO_TEST_CASE(rows_of_a_group_go_through_its_layer) {
    at::manual_seed(3);
    const Gemms gemms = Gemms::open().value();
    // All rows of one group, groups without rows, and one row.
    for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{
             {0, 40, 0}, {3, 36, 1}, {20, 0, 20}, {0, 0, 0}, {5, 1, 2}, {700, 33, 1100}}) {
        const int64_t rows = counts[0] + counts[1] + counts[2];
        const at::Tensor x = at::randn({rows, 12});
        const at::Tensor dy = at::randn({rows, 7});
        const at::Tensor weights = at::randn({3, 7, 12});
        const at::Tensor gradient = at::zeros({3, 7, 12});
        const at::Tensor y = grouped_linear(gemms, x, weights, counts);
        const at::Tensor dx = grouped_linear_backward_input(gemms, dy, weights, counts);
        add_grouped_weight_gradient(gemms, gradient, dy, x, counts);
        // The first product of a sum writes it: the bits of a sum that begins with 0.
        const at::Tensor begun = at::full({3, 7, 12}, std::numeric_limits<double>::quiet_NaN());
        add_grouped_weight_gradient(gemms, begun, dy, x, counts, true);
        BOOST_TEST(begun.equal(gradient));
        int64_t begin = 0;
        for (int64_t group = 0; group < 3; ++group) {
            const int64_t count = counts[static_cast<size_t>(group)];
            const auto part = [&](const at::Tensor& all) { return all.narrow(0, begin, count); };
            BOOST_TEST(at::allclose(part(y), part(x).matmul(weights[group].t()), 1e-5, 1e-5));
            BOOST_TEST(at::allclose(part(dx), part(dy).matmul(weights[group]), 1e-5, 1e-5));
            BOOST_TEST(at::allclose(gradient[group], part(dy).t().matmul(part(x)), 1e-5, 1e-4));
            begin += count;
        }
    }
}

// Else a token of one document would move bits of another, if it chose another expert.
BOOST_AUTO_TEST_CASE(a_row_does_not_depend_on_how_many_share_its_expert) {
    at::manual_seed(4);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        for (const auto& [out, in] : {std::pair<int64_t, int64_t>{48, 32}, {96, 256}, {33, 20}}) {
            const at::Tensor x = at::randn({200, in}).to(type);
            const at::Tensor weights = at::randn({1, out, in}).to(type);
            Gemms all = Gemms::open().value();
            for (const auto& backend : all.backends()) {
                if (!backend->serves(type)) continue;
                Gemms gemms = Gemms::open().value();
                gemms.choose_for_all(*gemms.find(backend->name()));
                const at::Tensor whole = grouped_linear(gemms, x, weights, {200});
                for (int64_t rows = 1; rows < 200; rows += rows < 40 ? 1 : 13) {
                    BOOST_TEST_INFO_SCOPE(backend->name()
                                          << " " << out << " x " << in << ", " << rows << " rows");
                    const at::Tensor some = x.narrow(0, 200 - rows, rows).contiguous();
                    BOOST_TEST(grouped_linear(gemms, some, weights, {rows})
                                   .equal(whole.narrow(0, 200 - rows, rows)));
                }
            }
        }
    }
}
