// Models with experts: runs in every layout against one rank, with the loss that balances experts,
// and routing at its extremes.
#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "golden.hpp"
#include "layout_run.hpp"
#include "mpi_test.hpp"
#include "ringshard/model/safetensors.hpp"

using namespace ringshard;

namespace {

constexpr mesh::Cuts multi_gpu{false, false, false, true};
constexpr mesh::Cuts zero1{true, false, false, true};
constexpr mesh::Cuts zero2{true, true, false, true};
constexpr mesh::Cuts zero3{true, true, true, false};
// Gathered weights stay until the backward pass, so that experts are not gathered in slices.
constexpr mesh::Cuts keeping_zero3{true, true, true, true};
constexpr int64_t num_rows = 16;
// Tokens of all layouts take several turns, and rows travel in up to eight chunks of a turn.
constexpr model::Chunks in_pieces{.mlp = 100, .rows_of_expert = 4};

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

constexpr const char* qwen3_moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": true,
  "mlp_only_layers": [1], "max_position_embeddings": 256, "tie_word_embeddings": false,
  "router_aux_loss_coef": 0.05, "rope_theta": 10000.0})";

// The other ways to hold experts: as one tensor; turned, with biases; beside a shared MLP, with a
// router of sigmoids, groups and corrections.
constexpr const char* granitemoe = R"({
  "model_type": "granitemoe", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2,
  "tie_word_embeddings": false, "router_aux_loss_coef": 0.05})";
constexpr const char* gpt_oss = R"({
  "model_type": "gpt_oss", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
  "sliding_window": 16, "router_aux_loss_coef": 0.05, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})";
constexpr const char* glm4_moe = R"({
  "model_type": "glm4_moe", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "n_routed_experts": 8, "num_experts_per_tok": 2,
  "moe_intermediate_size": 16, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5})";

// The weights of routers: spread; or 0, so that all tokens choose the same experts, and the others
// have none.
enum class Routing { spread, equal };

class Model {
public:
    explicit Model(Routing routing, const char* config_json = qwen3_moe)
        : config_json_(config_json),
          folder_(std::filesystem::temp_directory_path() /
                  format_text("ringshard-experts-{}",
                              test::world().broadcast(std::to_string(getpid())))) {
        if (test::world().is_root()) write(routing);
        test::world().barrier();
    }
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    ~Model() {
        test::world().barrier();
        if (test::world().is_root()) std::filesystem::remove_all(folder_);
    }
    const std::filesystem::path& folder() const { return folder_; }

private:
    void write(Routing routing) const {
        std::filesystem::create_directories(folder_);
        std::ofstream(folder_ / "config.json") << config_json_;
        const auto spec = model::read_model_spec(folder_ / "config.json").value();
        std::vector<model::TensorEntry> entries;
        for (const shard::FlatUnit& unit : model::make_units(spec, 1))
            for (const shard::PlacedTensor& tensor : unit.tensors())
                entries.push_back({tensor.spec.name, model::StoredType::fp32, tensor.spec.shape});
        model::SafetensorsWriter writer(folder_ / "model.safetensors", entries);
        std::mt19937 random(3);
        for (const model::TensorEntry& entry : entries) {
            size_t count = 1;
            for (const int64_t size : entry.shape) count *= static_cast<size_t>(size);
            const bool is_router = entry.name.ends_with("mlp.gate.weight") ||
                                   entry.name.ends_with("router.weight") ||
                                   entry.name.ends_with("router.layer.weight");
            std::vector<float> values;
            for (size_t i = 0; i < count; ++i)
                values.push_back(
                    value_of(entry, is_router, static_cast<double>(random()) / 4294967296.0));
            if (is_router && routing == Routing::equal) std::ranges::fill(values, 0.0F);
            writer.write(values);
        }
        if (const auto failure = writer.close()) throw Error(*failure);
    }
    // u: uniform in [0, 1).
    static float value_of(const model::TensorEntry& entry, bool is_router, double u) {
        if (entry.shape.size() == 1) return static_cast<float>(0.8 + 0.4 * u);
        const double spread =
            is_router ? 0.5 : 1.2 / std::sqrt(static_cast<double>(entry.shape.back()));
        return static_cast<float>(spread * (2 * u - 1));
    }

    const char* config_json_;
    std::filesystem::path folder_;
};

test::LayoutRun run_of(const Model& model, const Layout& layout, int64_t accumulation,
                       int64_t num_steps) {
    return {.model = model.folder(),
            .cuts = layout.cuts,
            .shape = layout.shape,
            .accumulation = accumulation,
            .rows_per_device = num_rows / 2 / accumulation / layout.shape.data(),
            .num_steps = num_steps,
            .chunks = in_pieces};
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
                   const char* config_json = qwen3_moe) {
    const Model model(routing, config_json);
    const comm::Group alone(MPI_COMM_SELF);
    const data::Rows rows = test::make_rows(test::RowKind::packed, num_rows, 60);
    for (const int64_t accumulation : {1, 2}) {
        const test::Outcome reference =
            test::train(alone, run_of(model, {{}, {1, 1, 1, 1}}, accumulation, num_steps), rows);
        for (const Layout& layout : tried) {
            if (layout.shape.world() != test::world().size()) continue;
            BOOST_TEST_INFO_SCOPE(to_text(layout.shape)
                                  << ", experts " << layout.shape.experts << ", " << accumulation);
            test::LayoutRun run = run_of(model, layout, accumulation, num_steps);
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

namespace {

test::TestModel::Options options_of(const mesh::Cuts& cuts, const mesh::MeshShape& shape) {
    return {.shape = shape, .cuts = cuts, .chunks = in_pieces};
}

// What a training pass over some rows makes of a model, and its logits.
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
    options.adapters = model::LoraConfig{
        .target_parameters = {"experts.gate_up_proj", "experts.down_proj"}, .has_no_modules = true};
    check_slices(Model(Routing::spread), options);
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
    BOOST_TEST(zero.memory().gradients - zero.gradient_shards().bytes() <= bytes * others);
    BOOST_TEST(of_experts > 2 * (block + slice));
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
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.experts);
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
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.experts);
        const test::Outcome outcome = run(test::world(), layout);
        if (!test::world().is_root()) continue;
        test::expect_equal(outcome, reference);
        expect_routed_alike(outcome, reference);
    }
}

// A changed token moves no logit of another document by a bit, though their rows meet in the
// products of the experts.
BOOST_AUTO_TEST_CASE(documents_do_not_see_each_other) {
    const Model folder(Routing::spread);
    const data::Rows rows = test::make_rows(test::RowKind::packed, 4, 60);
    std::vector<Layout> all = layouts;
    all.insert(all.end(), layouts_of_groups.begin(), layouts_of_groups.end());
    for (const Layout& layout : all) {
        if (layout.shape.world() != test::world().size()) continue;
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.experts);
        test::TestModel model(test::world(), folder.folder(),
                              {.shape = layout.shape, .cuts = layout.cuts, .chunks = in_pieces});
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
}

BOOST_AUTO_TEST_CASE(the_number_of_chunks_changes_no_bit_of_a_row) {
    const Model folder(Routing::spread);
    const data::Rows rows = test::make_rows(test::RowKind::packed, 4, 60);
    for (const Layout& layout : layouts_of_groups) {
        if (layout.shape.world() != test::world().size()) continue;
        BOOST_TEST_INFO_SCOPE(to_text(layout.shape) << ", experts " << layout.shape.experts);
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
