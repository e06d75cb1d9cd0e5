// The work of the GPU path, counted where the host runs its kernels: the kernels that a block
// starts, the bytes that kernels of rows read and write, copies, and the times that the host waits
// for the device. A kernel, a pass over memory or a copy that a change adds is seen here.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>

#include "block.hpp"
#include "gpu_ledger.hpp"
#include "mpi_test.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/rope_spec.hpp"

using namespace ringshard;
using namespace ringshard::model;
using test::Counting;
using test::Ledger;

namespace {

constexpr int64_t width = 896;
constexpr int64_t tokens = 128;

// A block of Qwen2.5-0.5B.
BlockSpec spec_of_block() {
    BlockSpec spec{.width = width, .norm = {.epsilon = 1e-6}};
    spec.attention().heads = {14, 2, 64};
    spec.attention().has_bias = true;
    spec.mlp().intermediate = 4864;
    return spec;
}

// The documents of a block's tokens, and how they see each other.
struct Documents {
    std::vector<int64_t> starts{0, tokens / 2};  // by default two rows that are a document each
    attention::Mask mask{};
    int64_t num_tokens = tokens;
    int64_t head_dim = 64;
};

// Forward and backward.
Ledger work_of_block(config::ActivationPolicy policy, const BlockSpec& spec = spec_of_block(),
                     const Documents& documents = {}) {
    const c10::InferenceMode no_autograd;
    const mesh::Mesh mesh(test::world(), {}, at::kCPU);
    const ops::Gemms gemms = ops::Gemms::open().value();
    shard::UnitLayout layout("block");
    const Block block(layout, spec, {.products_add = true});
    const std::vector<shard::FlatUnit> units = layout.finish(1);
    const at::TensorOptions bf16(at::kBFloat16);
    const shard::UnitTensors weights(units.front(), 0.02 * at::randn({units.front().size()}, bf16));
    const shard::UnitTensors gradients(units.front(), at::zeros({units.front().size()}));

    const attention::SequencePartition partition(documents.num_tokens, documents.starts, 1, 1);
    const std::vector<attention::Mask> masks{documents.mask};
    std::vector<attention::Plan> plans = attention::make_plans(partition, 0, masks);
    attention::prepare_plans(plans, mesh.device());
    const at::Tensor places = at::arange(documents.num_tokens / 2).repeat({2});
    const Positions positions{
        {ops::make_rope_table(places, inverse_frequencies({}, documents.head_dim), 1.0)}};
    const BlockContext context{.sequence = {mesh.ring(), mesh.ulysses()},
                               .masks = masks,
                               .plans = plans,
                               .positions = positions,
                               .projections = {gemms},
                               .policy = policy,
                               .mlp_chunk = documents.num_tokens};
    const at::Tensor input = at::randn({documents.num_tokens, spec.width}, bf16);
    const at::Tensor gradient = at::randn({documents.num_tokens, spec.width}, bf16);

    Ledger counted;
    {
        const Counting counting(counted);
        Saved saved = block.begin(input);
        block.forward(context, weights, saved);
        block.backward(context, weights, gradients, gradient, std::move(saved));
    }
    return counted;
}

// Of tokens times width, in the type of the computation.
double passes(int64_t bytes) {
    constexpr int64_t bf16_bytes = 2;
    return static_cast<double>(bytes) / static_cast<double>(tokens * width * bf16_bytes);
}

}  // namespace

// Launches and passes, told by name where a test fails or --log_level=message asks for it.
std::pair<int64_t, double> sums_of(const Ledger& block) {
    int64_t launches = 0;
    int64_t bytes = 0;
    for (const auto& [name, count] : block.counts) {
        if (count.launches == 0) continue;
        launches += count.launches;
        bytes += count.bytes;
        BOOST_TEST_MESSAGE(name << ": " << count.launches << " launches, " << passes(count.bytes)
                                << " passes");
    }
    BOOST_TEST_MESSAGE("together " << launches << " launches, " << passes(bytes) << " passes, "
                                   << block.waits << " waits; products add "
                                   << passes(block.addends) << "; " << block.to_device
                                   << " copies to the device, " << block.to_host << " back, "
                                   << block.other_copies << " others");
    return {launches, passes(bytes)};
}

// Nothing makes the host wait, and no index tensor is copied but through pinned memory.
void check_copies(const Ledger& work, int64_t to_device) {
    BOOST_TEST(work.waits == 0);
    BOOST_TEST(work.to_host == 0);
    BOOST_TEST(work.other_copies == 0);
    BOOST_TEST(work.to_device == to_device);
}

// Before residuals and norms, copies around attention, RoPE and the bias's gradient shared kernels.
constexpr double passes_before = 82.8;
// With `attention` beside that: outputs of chunks copied, a norm, a sum and RoPE of queries and
// keys made again.
constexpr double passes_before_of_attention = passes_before + 2 + 2 + 3 + 2.29;

BOOST_AUTO_TEST_CASE(a_block_of_half_a_billion_makes_so_many_passes) {
    const Ledger block = work_of_block(config::ActivationPolicy::all);
    const auto [launches, passes_of_rows] = sums_of(block);
    check_copies(block, 0);
    BOOST_TEST(launches <= 20);  // kernels and products
    BOOST_TEST(passes_of_rows <= 0.84 * passes_before);
    BOOST_TEST(passes(block.addends) <= 2);
}

BOOST_AUTO_TEST_CASE(a_block_that_makes_again_all_but_attention) {
    const Ledger block = work_of_block(config::ActivationPolicy::attention);
    const auto [launches, passes_of_rows] = sums_of(block);
    check_copies(block, 0);
    BOOST_TEST(launches <= 26);
    BOOST_TEST(passes_of_rows <= 0.82 * passes_before_of_attention);
    BOOST_TEST(passes(block.addends) <= 3);
}

BOOST_AUTO_TEST_CASE(a_block_that_keeps_its_rows_makes_fewer) {
    const Ledger block = work_of_block(config::ActivationPolicy::everything);
    const auto [launches, passes_of_rows] = sums_of(block);
    check_copies(block, 0);
    BOOST_TEST(launches <= 20);
    BOOST_TEST(passes_of_rows <= 0.75 * passes_before);
    BOOST_TEST(passes(block.addends) <= 2);
}

// Documents that are no whole chunks of 64 tokens, whose places the kernels read. Their places are
// copied for each kernel, which is more than once a batch.
BOOST_AUTO_TEST_CASE(a_block_of_a_gated_delta_net_waits_for_nothing) {
    BlockSpec spec = spec_of_block();
    spec.mixer().part = DeltaNetSpec{.sizes = {2, 4, 64, 64}};
    const Documents documents{{0, 90}, {.through_state = true}};
    const Ledger block = work_of_block(config::ActivationPolicy::all, spec, documents);
    const auto [launches, passes_of_rows] = sums_of(block);
    check_copies(block, 18);
    BOOST_TEST(launches <= 656);
    BOOST_TEST(passes_of_rows <= 349.5);
}

// Documents of a packed row share a call, whose starts are copied once a batch.
BOOST_AUTO_TEST_CASE(a_packed_row_waits_for_nothing) {
    const Documents documents{{0, 5, 40, 41}};
    const Ledger block = work_of_block(config::ActivationPolicy::all, spec_of_block(), documents);
    const auto [launches, passes_of_rows] = sums_of(block);
    check_copies(block, 0);
    BOOST_TEST(launches <= 20);
    BOOST_TEST(passes_of_rows <= 0.84 * passes_before);
}

// A large document has a call of its own: the results of both calls are copied into those of the
// block, and each call has a kernel behind it that reads its gradients.
BOOST_AUTO_TEST_CASE(a_packed_row_with_a_large_document_waits_for_nothing) {
    BlockSpec spec = spec_of_block();
    spec.width = 64;
    spec.attention().heads = {1, 1, 16};
    spec.mlp().intermediate = 64;
    const Documents documents{{0, 8192, 8200}, {}, 8256, 16};
    const Ledger block = work_of_block(config::ActivationPolicy::all, spec, documents);
    const auto [launches, passes_of_rows] = sums_of(block);
    check_copies(block, 0);
    BOOST_TEST(launches <= 25);
}

namespace {

// The numbers of a token that our kernels read and write, by the words by which a plan knows them.
std::map<std::string, double> counted_by_words(const Ledger& work, const StageCosts& costs) {
    std::map<std::string, double> numbers;
    for (const auto& [part, rows] : costs.rows)
        for (const std::string& word : rows.kernels) {
            // LibTorch's; and one that reads fp32 here, where the host makes gradients of heads.
            if (!word.starts_with("::") || word == "::PutHeads") continue;
            const std::string type = word.substr(2);
            const std::string mangled = format_text("{}{}I", type.size(), type);
            double bytes = 0;  // of all its kernels
            for (const auto& [name, count] : work.counts)
                if (name.find(mangled) != std::string::npos)
                    bytes += static_cast<double>(count.bytes);
            if (bytes > 0) numbers[word] = bytes / (2.0 * tokens);
        }
    return numbers;
}

// As in Qwen2.5; with norms before and behind, as in Gemma 2 and GLM-4; and with one norm of both
// branches, as in Cohere.
std::map<std::string, BlockSpec> specs_of_norms() {
    std::map<std::string, BlockSpec> specs{{"two norms", spec_of_block()}};
    BlockSpec& four = specs["four norms"] = spec_of_block();
    four.mixer().norms.behind = "post_self_attn_layernorm";
    four.feed_forward().norms.behind = "post_mlp_layernorm";
    BlockSpec& one = specs["one norm"] = spec_of_block();
    one.feed_forward().is_parallel = true;
    one.feed_forward().norms = {};
    return specs;
}

}  // namespace

// The plan of a block says what each kernel of rows reads and writes, but for weights and their
// gradients.
BOOST_AUTO_TEST_CASE(a_plan_counts_the_passes_of_a_block) {
    using config::ActivationPolicy;
    for (const auto& [name, spec] : specs_of_norms())
        for (const ActivationPolicy policy :
             {ActivationPolicy::everything, ActivationPolicy::all,
              ActivationPolicy::all_but_gate_up, ActivationPolicy::attention}) {
            BOOST_TEST_INFO_SCOPE(name << ", policy " << static_cast<int>(policy));
            shard::UnitLayout layout("block");
            const StageCosts costs = Block(layout, spec, {.products_add = true}).costs(policy);
            std::map<std::string, double> planned;
            for (const auto& [part, rows] : costs.rows)
                for (const std::string& word : rows.kernels) planned[word] += rows.numbers;
            const auto counted = counted_by_words(work_of_block(policy, spec), costs);
            BOOST_TEST(counted.size() == 5U);
            for (const auto& [word, numbers] : counted)
                BOOST_TEST(std::abs(planned[word] - numbers) < 0.01 * numbers,
                           word << ": " << planned[word] / width << " passes planned, "
                                << numbers / width << " counted");
        }
}
