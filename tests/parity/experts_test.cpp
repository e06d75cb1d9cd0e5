// Models with experts: runs in every layout against one rank, with the loss that balances experts,
// and routing at its extremes.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <random>

#include "expert_models.hpp"
#include "golden.hpp"
#include "layout_run.hpp"
#include "mpi_test.hpp"

using namespace ringshard;
using namespace ringshard::test::experts;

namespace {

constexpr mesh::Cuts multi_gpu{false, false, false, true};
constexpr mesh::Cuts zero1{true, false, false, true};
constexpr mesh::Cuts zero2{true, true, false, true};
constexpr int64_t num_rows = 16;

struct Layout {
    mesh::Cuts cuts;
    mesh::MeshShape shape;  // replicate x shard x ring x ulysses, and the ranks that share experts
};
const std::vector<Layout> layouts{
    {multi_gpu, {2, 1, 1, 1}}, {zero1, {1, 2, 1, 1}}, {zero2, {1, 2, 1, 1}},
    {zero3, {1, 2, 1, 1}},     {zero3, {1, 1, 2, 1}}, {zero3, {1, 1, 1, 2}},

    {zero2, {2, 2, 1, 1}},     {zero3, {2, 2, 1, 1}}, {zero3, {1, 2, 2, 1}},
    {zero1, {1, 2, 1, 2}},     {zero3, {1, 1, 2, 2}}, {multi_gpu, {1, 1, 4, 1}},
    {zero1, {1, 1, 2, 1}},     {zero1, {1, 1, 1, 2}}, {zero1, {1, 1, 2, 2}},
};
const std::vector<Layout> layouts_of_groups{
    {zero1, {1, 2, 1, 1, 2}}, {zero2, {1, 2, 1, 1, 2}}, {zero3, {1, 2, 1, 1, 2}},
    {zero3, {1, 1, 2, 1, 2}}, {zero3, {1, 1, 1, 2, 2}}, {multi_gpu, {1, 1, 2, 1, 2}},

    {zero1, {1, 4, 1, 1, 4}}, {zero2, {1, 4, 1, 1, 2}}, {zero3, {1, 4, 1, 1, 2}},
    {zero3, {1, 2, 2, 1, 4}}, {zero3, {1, 2, 1, 2, 2}}, {zero1, {1, 1, 2, 2, 4}},
    {zero3, {2, 2, 1, 1, 2}}, {zero1, {2, 2, 1, 1, 2}}, {multi_gpu, {2, 1, 2, 1, 2}},
    {zero3, {1, 1, 2, 2, 4}}, {zero3, {1, 1, 2, 2, 2}}, {zero1, {1, 1, 2, 1, 2}},
    {zero1, {1, 1, 1, 2, 2}}, {zero1, {1, 1, 2, 2, 2}}, {zero1, {1, 2, 2, 1, 4}},
    {zero1, {1, 2, 1, 2, 4}}, {zero3, {1, 2, 1, 2, 4}},
};

// Adapters beside a frozen model, and the form in which its matrices lie.
struct Trained {
    std::optional<peft::LoraConfig> adapters{};
    shard::Codec frozen_form = shard::Codec::compute;
};
const peft::LoraConfig of_experts{
    .r = 4,
    .target_modules = {"q_proj"},
    .target_parameters = {"experts.gate_up_proj", "experts.down_proj"}};

// Some gradients of queries are about 1e-8: with AdamW's usual epsilon, rounding would decide
// their direction.
test::LayoutRun run_of(const Model& model, const Layout& layout, int64_t accumulation,
                       int64_t num_steps, const Trained& trained = {}) {
    return {.model = model.folder(),
            .cuts = layout.cuts,
            .shape = layout.shape,
            .accumulation = accumulation,
            .rows_per_device = num_rows / 2 / accumulation / layout.shape.data(),
            .num_steps = num_steps,
            .adapters = trained.adapters,
            .frozen_form = trained.frozen_form,
            .chunks = in_pieces,
            .adam_epsilon = 1e-6};
}

void expect_routed_alike(const test::Outcome& outcome, const test::Outcome& reference) {
    for (size_t i = 0; i < reference.steps.size(); ++i) {
        const train::RouterNumbers& a = outcome.steps[i].routers;
        const train::RouterNumbers& b = reference.steps[i].routers;
        BOOST_TEST(a.choices == b.choices, boost::test_tools::per_element());
        BOOST_TEST(std::abs(a.aux_loss - b.aux_loss) <= 1e-6 * b.aux_loss);
    }
}

void check_layouts(const std::vector<Layout>& tried, Routing routing, int64_t num_steps,
                   const char* config_json = qwen3_moe, const Trained& trained = {}) {
    const Model model(routing, config_json);
    const comm::Group alone(MPI_COMM_SELF);
    const data::Rows rows = test::make_rows(test::RowKind::packed, num_rows, 60);
    for (const int64_t accumulation : {1, 2}) {
        const test::Outcome reference = test::train(
            alone, run_of(model, {{}, {1, 1, 1, 1}}, accumulation, num_steps, trained), rows);
        for (const Layout& layout : tried) {
            if (layout.shape.world() != test::world().size()) continue;
            BOOST_TEST_INFO_SCOPE(to_text(layout.shape)
                                  << ", experts " << layout.shape.sections << ", " << accumulation);
            test::LayoutRun run = run_of(model, layout, accumulation, num_steps, trained);
            if (accumulation == 2) run.policies = config::ActivationPolicy::all;
            const test::Outcome outcome = test::train(test::world(), run, rows);
            if (!test::world().is_root()) continue;
            test::expect_equal(outcome, reference);
            expect_routed_alike(outcome, reference);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_layout_gives_the_numbers_of_one_rank) {
    check_layouts(layouts, Routing::spread, 3);
}

BOOST_AUTO_TEST_CASE(ranks_that_share_experts_give_the_numbers_of_one_rank) {
    check_layouts(layouts_of_groups, Routing::spread, 3);
}

BOOST_AUTO_TEST_CASE(every_kind_of_experts_gives_the_numbers_of_one_rank) {
    const std::vector<Layout> in_slices{
        {zero3, {1, 2, 1, 1}}, {zero3, {1, 1, 2, 1}}, {zero3, {2, 2, 1, 1}}, {zero3, {1, 2, 1, 2}}};
    for (const char* const config_json : {granitemoe, gpt_oss, glm4_moe}) {
        BOOST_TEST_INFO_SCOPE(config_json);
        check_layouts(layouts_of_groups, Routing::spread, 2, config_json);
        check_layouts(in_slices, Routing::spread, 2, config_json);
    }
}

// A rank computes with the adapters of its experts, and all ranks divide them.
BOOST_AUTO_TEST_CASE(adapters_of_experts_that_ranks_share_give_the_numbers_of_one_rank) {
    for (const char* const config_json : {qwen3_moe, gpt_oss}) {
        BOOST_TEST_INFO_SCOPE(config_json);
        check_layouts(layouts_of_groups, Routing::spread, 3, config_json, {of_experts});
    }
}

BOOST_AUTO_TEST_CASE(experts_in_four_bits_give_the_numbers_of_one_rank) {
    std::vector<Layout> all = layouts_of_groups;
    all.insert(all.end(), layouts.begin(), layouts.end());
    for (const char* const config_json : {qwen3_moe, gpt_oss}) {
        BOOST_TEST_INFO_SCOPE(config_json);
        check_layouts(all, Routing::spread, 2, config_json, {of_experts, shard::Codec::nested_nf4});
    }
}

// Other ranks' experts have no tokens then.
BOOST_AUTO_TEST_CASE(all_tokens_choose_the_same_experts) {
    check_layouts(layouts, Routing::equal, 1);
    check_layouts(layouts_of_groups, Routing::equal, 1);
}

// A sequence of three tokens: most ranks hold nothing but what fills it up, which no router counts.
BOOST_AUTO_TEST_CASE(ranks_without_tokens) {
    const Model model(Routing::spread);
    const comm::Group alone(MPI_COMM_SELF);
    data::SampleList samples;
    const std::vector<int32_t> tokens{5, 100, 400};
    const std::vector<int32_t> lengths{3};
    samples.add(tokens, tokens, lengths);
    const data::Rows rows = test::one_row_each(std::move(samples));
    const auto run = [&](const comm::Group& group, const Layout& layout) {
        test::LayoutRun wanted = run_of(model, layout, 1, 1);
        wanted.rows_per_device = 1;
        return test::train(group, wanted, rows);
    };
    const test::Outcome reference = run(alone, {{}, {1, 1, 1, 1}});
    double choices = 0;
    for (const double of_expert : reference.steps.front().routers.choices) choices += of_expert;
    BOOST_TEST(choices == 3 * 2 * 2);  // tokens, experts of each, blocks that have some
    std::vector<Layout> all = layouts;
    all.insert(all.end(), layouts_of_groups.begin(), layouts_of_groups.end());
    for (const Layout& layout : all) {
        if (layout.shape.world() != test::world().size() || layout.shape.data() > 1) continue;
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.sections);
        const test::Outcome outcome = run(test::world(), layout);
        if (!test::world().is_root()) continue;
        test::expect_equal(outcome, reference);
        expect_routed_alike(outcome, reference);
    }
}

// A data rank with several chunks of tokens, and one with a few tokens: the rank that has none left
// takes part with its experts.
BOOST_AUTO_TEST_CASE(a_rank_takes_part_in_chunks_that_it_has_no_tokens_for) {
    const Model model(Routing::spread);
    const comm::Group alone(MPI_COMM_SELF);
    data::SampleList samples;
    std::mt19937 random(5);
    for (const int32_t length : {5000, 7, 3, 2100}) {
        std::vector<int32_t> tokens;
        for (int32_t t = 0; t < length; ++t) tokens.push_back(static_cast<int32_t>(random() % 512));
        samples.add(tokens, tokens, {{length}});
    }
    const data::Rows rows = test::one_row_each(std::move(samples));
    const auto run = [&](const comm::Group& group, const Layout& layout) {
        test::LayoutRun wanted = run_of(model, layout, 1, 1);
        wanted.rows_per_device = 4 / layout.shape.data();
        wanted.chunks = model::Chunks{.rows_of_expert = in_pieces.rows_of_expert};
        return test::train(group, wanted, rows);
    };
    const test::Outcome reference = run(alone, {{}, {1, 1, 1, 1}});
    for (const Layout& layout : layouts_of_groups) {
        if (layout.shape.world() != test::world().size() || layout.cuts != zero3) continue;
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.sections);
        const test::Outcome outcome = run(test::world(), layout);
        if (!test::world().is_root()) continue;
        test::expect_equal(outcome, reference);
        expect_routed_alike(outcome, reference);
    }
}

namespace {

void check_leak(const Model& folder, const Layout& layout, const Trained& trained) {
    const data::Rows rows = test::make_rows(test::RowKind::packed, 4, 60);
    test::TestModel model(test::world(), folder.folder(),
                          {.shape = layout.shape,
                           .cuts = layout.cuts,
                           .adapters = trained.adapters,
                           .frozen_form = trained.frozen_form,
                           .chunks = in_pieces});
    const int64_t first = 4 / layout.shape.data() * model.mesh.data_rank();
    data::FlatBatch batch = data::flatten(rows, std::vector<int64_t>{first % 4});
    const at::Tensor before = model.logits(batch);
    const auto second = static_cast<size_t>(batch.document_starts[1]);
    if (model.mesh.data_rank() == 0)
        batch.tokens[second - 3] = (batch.tokens[second - 3] + 1) % 512;
    const at::Tensor after = model.logits(batch);
    const auto changed = static_cast<int64_t>(second) - 3;
    const bool is_here = model.mesh.data_rank() == 0;
    BOOST_TEST(after.narrow(0, 0, changed).equal(before.narrow(0, 0, changed)));
    BOOST_TEST(after[changed].equal(before[changed]) == !is_here);
    const int64_t begin = is_here ? changed + 3 : 0;
    const int64_t rest = after.size(0) - begin;
    BOOST_TEST(after.narrow(0, begin, rest).equal(before.narrow(0, begin, rest)));
}

}  // namespace

// A changed token moves no logit of another document by a bit, though their rows meet in the
// products of the experts.
BOOST_AUTO_TEST_CASE(documents_do_not_see_each_other) {
    const Model folder(Routing::spread);
    std::vector<Layout> all = layouts;
    all.insert(all.end(), layouts_of_groups.begin(), layouts_of_groups.end());
    for (const Layout& layout : all) {
        if (layout.shape.world() != test::world().size()) continue;
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.sections);
        check_leak(folder, layout, {});
        check_leak(folder, layout, {of_experts, shard::Codec::nested_nf4});
    }
}

BOOST_AUTO_TEST_CASE(the_number_of_chunks_changes_no_bit_of_a_row) {
    const Model folder(Routing::spread);
    const data::Rows rows = test::make_rows(test::RowKind::packed, 4, 60);
    for (const Layout& layout : layouts_of_groups) {
        if (layout.shape.world() != test::world().size()) continue;
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.sections);
        const auto logits = [&](int64_t rows_of_expert) {
            test::TestModel model(test::world(), folder.folder(),
                                  {.shape = layout.shape,
                                   .cuts = layout.cuts,
                                   .chunks = model::Chunks{.rows_of_expert = rows_of_expert}});
            const int64_t first = 4 / layout.shape.data() * model.mesh.data_rank();
            return model.logits(data::flatten(rows, std::vector<int64_t>{first % 4}));
        };
        constexpr int64_t one_chunk = 1 << 20;
        BOOST_TEST(logits(in_pieces.rows_of_expert).equal(logits(one_chunk)));
    }
}
