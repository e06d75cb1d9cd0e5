// Experts that a rank gathers in slices, beside experts that it gathers all at once.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "expert_models.hpp"
#include "ringshard/model/quantize.hpp"

using namespace ringshard;
using namespace ringshard::test::experts;

namespace {

// Gathered weights stay until the backward pass, so that experts are not gathered in slices.
constexpr mesh::Cuts keeping_zero3{true, true, true, true};

test::TestModel::Options options_of(const mesh::Cuts& cuts, const mesh::MeshShape& shape) {
    return {.shape = shape, .cuts = cuts, .chunks = in_pieces};
}

// The gradients and statistics of a training pass over some rows, and the logits.
struct Pass {
    std::map<std::string, at::Tensor> gradients;
    at::Tensor stats;
    at::Tensor logits;
};

Pass pass_of(test::TestModel& model, const data::Rows& rows) {
    const data::FlatBatch batch = data::flatten(rows, std::vector<int64_t>{0, 1, 2});
    model.zero.begin_last_micro_batch();
    Pass pass;
    pass.stats = model.transformer.forward_backward(model.cut(batch), 1.0).clone();
    model.zero.finish_gradients();
    pass.gradients = model.gradients();
    pass.logits = model.logits(batch);
    return pass;
}

void expect_same(const Pass& a, const Pass& b) {
    const auto compare = [&](const std::string& name, const at::Tensor& x, const at::Tensor& y) {
        BOOST_TEST(x.equal(y), name << " differs by " << (x - y).abs().max().item<double>());
    };
    compare("statistics", a.stats, b.stats);
    compare("logits", a.logits, b.logits);
    BOOST_TEST(a.gradients.size() == b.gradients.size());
    for (const auto& [name, gradient] : b.gradients) compare(name, a.gradients.at(name), gradient);
}

// The same in both runs: all experts of a block at once, and in slices.
void check_slices(const Model& folder, test::TestModel::Options options) {
    const data::Rows rows = test::make_rows(test::RowKind::packed, 4, 90);
    std::vector<Pass> passes;
    std::vector<size_t> num_units;
    for (const mesh::Cuts& cuts : {keeping_zero3, zero3}) {
        options.cuts = cuts;
        test::TestModel model(test::world(), folder.folder(), options);
        passes.push_back(pass_of(model, rows));
        num_units.push_back(model.zero.num_units());
    }
    BOOST_TEST(num_units[1] > num_units[0] + 2);
    expect_same(passes[1], passes[0]);
}

int64_t largest_of_blocks(const shard::Zero& zero, bool of_slices) {
    int64_t size = 0;
    for (const shard::FlatUnit& unit : zero.units())
        if (unit.name().starts_with("block") && (unit.stage() > 0) == of_slices)
            size = std::max(size, unit.size());
    return size;
}

}  // namespace

// Logits, losses and gradients, for every form of experts, kept activation and trained part.
BOOST_AUTO_TEST_CASE(slices_of_experts_change_no_bit) {
    if (test::world().size() > 2) return;  // sums of more ranks have another order
    using config::ActivationPolicy;
    test::TestModel::Options options = options_of({}, {1, 1, test::world().size(), 1});
    for (const char* const config_json : {qwen3_moe, granitemoe, gpt_oss, glm4_moe}) {
        const Model folder(Routing::spread, config_json);
        for (const auto& [policy, type] : {std::pair{ActivationPolicy::input, at::kFloat},
                                           {ActivationPolicy::all, at::kBFloat16},
                                           {ActivationPolicy::everything, at::kFloat}}) {
            BOOST_TEST_INFO_SCOPE(config_json << to_text(policy) << type);
            options.policies = policy;
            options.compute = type;
            check_slices(folder, options);
        }
    }
    options.adapters = peft::LoraConfig{
        .target_parameters = {"experts.gate_up_proj", "experts.down_proj"}, .has_no_modules = true};
    check_slices(Model(Routing::spread), options);
    options.frozen_form = shard::Codec::nested_nf4;
    check_slices(Model(Routing::spread), options);
}

// In each layout: the same bits as beside the numbers that the codes stand for, with all experts at
// once, in slices, and shared.
BOOST_AUTO_TEST_CASE(quantised_experts_compute_as_what_their_codes_stand_for) {
    const int ranks = test::world().size();
    const data::Rows rows = test::make_rows(test::RowKind::packed, 4, 90);
    peft::LoraConfig adapters{.r = 4, .target_modules = {"q_proj", "o_proj"}};
    for (const char* const config_json : {granitemoe, qwen3_moe, gpt_oss, glm4_moe}) {
        const Model folder(Routing::spread, config_json);
        if (config_json != granitemoe)  // whose experts take no adapters
            adapters.target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
        for (const auto& [cuts, sections] :
             {std::pair{keeping_zero3, 1}, {zero3, 1}, {zero3, ranks}})
            for (const auto& [form, type] : {std::pair{shard::Codec::nf4, at::kFloat},
                                             {shard::Codec::nested_nf4, at::kBFloat16},
                                             {shard::Codec::int8, at::kFloat}}) {
                BOOST_TEST_INFO_SCOPE(config_json << sections << type);
                test::TestModel::Options options = options_of(cuts, {1, 1, ranks, 1, sections});
                options.adapters = adapters;
                options.compute = type;
                test::TestModel dense(test::world(), folder.folder(), options);
                const Pass unrounded = pass_of(dense, rows);
                options.frozen_form = form;
                test::TestModel quantised(test::world(), folder.folder(), options);
                options.shape.sections = 1;
                test::TestModel source(test::world(), folder.folder(), options);
                model::copy_dequantized(source.zero, dense.zero);
                dense.zero.refresh_compute_weights();
                dense.zero.clear_gradients();
                const Pass pass = pass_of(quantised, rows);
                expect_same(pass, pass_of(dense, rows));
                BOOST_TEST(!pass.logits.equal(unrounded.logits));
            }
    }
}

// Beside the embedding and the head a rank never holds more than two blocks without experts and two
// slices of experts: their weights, and fp32 gradients of them.
BOOST_AUTO_TEST_CASE(few_experts_are_gathered_at_a_time) {
    const char* const many_experts = R"({
      "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 64, "num_experts_per_tok": 4,
      "moe_intermediate_size": 16, "norm_topk_prob": true, "tie_word_embeddings": false})";
    const Model folder(Routing::spread, many_experts);
    const data::Rows rows = test::make_rows(test::RowKind::one_document, 4, 60);
    test::TestModel model(test::world(), folder.folder(),
                          options_of(zero3, {1, 1, test::world().size(), 1}));
    const shard::Zero& zero = model.zero;
    const int64_t block = largest_of_blocks(zero, false);
    const int64_t slice = largest_of_blocks(zero, true);
    constexpr int64_t slices = 16;
    constexpr int64_t of_experts = 64 * 3 * 32 * 16;
    BOOST_TEST(slice <= std::max(block, of_experts / slices + 32 * test::world().size()));
    BOOST_TEST(zero.num_units() == 2 + 3 + 3 * slices);  // embedding, head, blocks, slices
    for (int pass = 0; pass < 2; ++pass) {
        pass_of(model, rows);
        model.zero.clear_gradients();
    }
    int64_t others = 2 * block + 2 * slice;
    for (const shard::FlatUnit& unit : zero.units())
        if (!unit.name().starts_with("block")) others += unit.size();
    const auto bytes = static_cast<int64_t>(sizeof(float));
    BOOST_TEST(zero.memory().gathered <= bytes * others);
    BOOST_TEST(zero.memory().gradients - zero.shelves().front().gradients->bytes() <=
               bytes * others);
    BOOST_TEST(of_experts > 2 * (block + slice));
}
