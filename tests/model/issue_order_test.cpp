// The order in which a step issues its kernels and collectives, recorded on meta tensors with
// communicators that only log. All ranks of a job must issue their collectives in the same order,
// whatever their data, and a collective must be issued before the kernels that overlap it.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

#include "golden.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/freeze.hpp"
#include "ringshard/train/training_stack.hpp"
#include "shard_batch.hpp"

using namespace ringshard;

namespace {

using Log = std::vector<std::string>;

class NotedEnd final : public comm::Completion {
public:
    NotedEnd(Log& log, std::string what, std::vector<at::Tensor> tensors)
        : log_(log), what_(std::move(what)), tensors_(std::move(tensors)) {}
    void wait() override { log_.push_back("wait for " + what_); }

private:
    Log& log_;
    std::string what_;
    std::vector<at::Tensor> tensors_;
};

class NotingCommunicator final : public comm::Communicator {
public:
    NotingCommunicator(Log& log, std::string group, int64_t rank, int64_t size)
        : log_(log), group_(std::move(group)), rank_(rank), size_(size) {}

    int rank() const override { return static_cast<int>(rank_); }
    int size() const override { return static_cast<int>(size_); }
    comm::Pending all_reduce(at::Tensor in_out) override { return note("all-reduce", {in_out}); }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
        return note("all-gather", {out, in});
    }
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override {
        return note("reduce-scatter", {out, in});
    }
    comm::Pending all_to_all(at::Tensor out, at::Tensor in) override {
        return note("all-to-all", {out, in});
    }
    comm::Pending all_to_all_uneven(at::Tensor out, comm::RowCounts, at::Tensor in,
                                    comm::RowCounts) override {
        return note("all-to-all", {out, in});
    }
    comm::Pending shift(std::vector<comm::Exchange> exchanges) override {
        return note("shift", {exchanges.front().send, exchanges.front().receive});
    }
    comm::Pending broadcast(at::Tensor in_out, int) override { return note("broadcast", {in_out}); }

private:
    comm::Pending note(const char* operation, std::vector<at::Tensor> tensors) {
        const std::string what = format_text("{} {} {}", group_, operation, ++count_);
        log_.push_back("start " + what);
        return comm::Pending(std::make_unique<NotedEnd>(log_, what, std::move(tensors)));
    }

    Log& log_;
    std::string group_;
    int64_t rank_;
    int64_t size_;
    int64_t count_ = 0;
};

// Documents and targets of all sorts, others for every seed.
data::FlatBatch some_batch(uint32_t seed) {
    std::mt19937 random(seed);
    data::FlatBatch batch;
    const size_t documents = 1 + random() % 6;
    for (size_t document = 0; document < documents; ++document) {
        batch.document_starts.push_back(static_cast<int64_t>(batch.tokens.size()));
        const size_t length = 1 + random() % 40;
        for (size_t i = 0; i < length; ++i) {
            batch.tokens.push_back(0);
            batch.targets.push_back(random() % 3 == 0 ? model::TokenBatch::no_target : 0);
        }
    }
    return batch;
}

struct Layout {
    mesh::MeshShape shape;
    mesh::Cuts cuts;
    config::ActivationPolicies policies = config::ActivationPolicy::attention;
    attention::ContextParallelOptions context_parallel = {};
    const char* freeze = "";  // as the setting
    int steps = 1;
};

Log log_of_step(const Layout& layout, int64_t rank, uint32_t seed) {
    const c10::InferenceMode no_autograd;
    Log log;
    const mesh::Mesh mesh(layout.shape, rank, at::kMeta,
                          [&](const char* group, int64_t place, int64_t size) {
                              return std::make_unique<NotingCommunicator>(log, group, place, size);
                          });
    model::ModelSpec spec =
        model::read_model_spec(test::golden_folder() / "models" / "qwen3-tiny" / "config.json")
            .value();
    spec.frozen = model::find_frozen(spec, layout.freeze, "").value();
    const auto note = [&](const std::string& what) { log.push_back(what); };
    train::TrainingStack stack({.cuts = layout.cuts,
                                .transformer = {.policies = layout.policies,
                                                .context_parallel = layout.context_parallel,
                                                .on_phase = note}},
                               spec, mesh);
    shard::Zero& zero = stack.zero;
    const model::Transformer& transformer = stack.transformer;
    // The ranks of a sequence group have the same batch.
    const int64_t data_rank = rank / layout.shape.sequence();
    for (int step = 0; step < layout.steps; ++step) {
        zero.clear_gradients();
        zero.begin_last_micro_batch();
        transformer.forward_backward(
            train::shard_batch(some_batch(seed + static_cast<uint32_t>(data_rank)), mesh,
                               transformer.masks()),
            1.0);
        zero.finish_gradients();
        zero.refresh_compute_weights();
    }
    return log;
}

constexpr mesh::Cuts nothing_cut{};
constexpr mesh::Cuts zero1{.optimizer = true, .keeps_weights_after_forward = false};
constexpr mesh::Cuts zero2{
    .optimizer = true, .gradients = true, .keeps_weights_after_forward = false};
constexpr mesh::Cuts zero3{
    .optimizer = true, .gradients = true, .weights = true, .keeps_weights_after_forward = false};
constexpr mesh::Cuts shard_grad_op{
    .optimizer = true, .gradients = true, .weights = true, .keeps_weights_after_forward = true};

size_t place_of(const Log& log, const std::string& line) {
    const auto found = std::ranges::find(log, line);
    BOOST_REQUIRE_MESSAGE(found != log.end(), line);
    return static_cast<size_t>(found - log.begin());
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_ranks_give_their_work_in_one_order_whatever_their_data) {
    using Keys = attention::ContextParallelOptions::Keys;
    for (const mesh::MeshShape& shape : {mesh::MeshShape{1, 4, 1, 1},
                                         {2, 2, 1, 1},
                                         {1, 2, 2, 1},
                                         {1, 2, 1, 2},
                                         {2, 1, 2, 2},
                                         {1, 2, 4, 1}})
        for (const mesh::Cuts& cuts : {nothing_cut, zero1, zero2, zero3, shard_grad_op})
            for (const auto& [keys, freeze] :
                 {std::pair{Keys::rotate, ""}, std::pair{Keys::all_gather, ""},
                  std::pair{Keys::rotate, "mlp|k_norm|embed_tokens"}}) {
                const Layout layout{.shape = shape,
                                    .cuts = cuts,
                                    .context_parallel = {.keys = keys},
                                    .freeze = freeze};
                const Log first = log_of_step(layout, 0, 1);
                for (int64_t rank = 0; rank < shape.world(); ++rank)
                    for (const uint32_t seed : {1U, 20U, 300U})
                        BOOST_REQUIRE(log_of_step(layout, rank, seed) == first);
            }
}

BOOST_AUTO_TEST_CASE(weights_are_gathered_while_the_unit_before_computes) {
    const Log log = log_of_step({.shape = {1, 4, 1, 1}, .cuts = zero3}, 1, 1);
    // Gathers 1, 2, 3, ... are those of the embedding, the first block, the second...
    for (int64_t block = 0; block + 1 < 2; ++block) {
        const size_t begins = place_of(log, format_text("forward of block {}", block));
        const size_t next_given = place_of(log, format_text("start zero all-gather {}", block + 3));
        const size_t next_begins = place_of(log, format_text("forward of block {}", block + 1));
        BOOST_TEST(begins < next_given);
        BOOST_TEST(next_given < next_begins);
        // Nobody waits for it before its own turn.
        BOOST_TEST(place_of(log, format_text("wait for zero all-gather {}", block + 3)) >
                   next_begins);
    }
}

BOOST_AUTO_TEST_CASE(
    trained_and_frozen_weights_of_a_block_are_gathered_while_the_one_before_computes) {
    const Layout layout{.shape = {1, 4, 1, 1}, .cuts = zero3, .freeze = "layers.*mlp"};
    const Log log = log_of_step(layout, 1, 1);
    // Gather 1 is the embedding's, 2 and 3 are the first block's, 4 and 5 the second's.
    const size_t begins = place_of(log, "forward of block 0");
    const size_t next_begins = place_of(log, "forward of block 1");
    for (const int gather : {4, 5}) {
        BOOST_TEST(begins < place_of(log, format_text("start zero all-gather {}", gather)));
        BOOST_TEST(place_of(log, format_text("start zero all-gather {}", gather)) < next_begins);
        BOOST_TEST(place_of(log, format_text("wait for zero all-gather {}", gather)) > next_begins);
    }
}

BOOST_AUTO_TEST_CASE(no_backward_pass_goes_below_what_is_trained) {
    const Layout layout{
        .shape = {1, 4, 1, 1}, .cuts = zero3, .freeze = "embed_tokens|layers.0|layers.1.self_attn"};
    const Log log = log_of_step(layout, 1, 1);
    BOOST_TEST(place_of(log, "backward of block 1") < place_of(log, "after the pass"));
    for (const char* const phase : {"backward of block 0", "backward of the embedding"})
        BOOST_TEST((std::ranges::find(log, phase) == log.end()), phase);
}

BOOST_AUTO_TEST_CASE(gradients_travel_while_the_block_before_goes_backward) {
    const Log log = log_of_step({.shape = {1, 4, 1, 1}, .cuts = zero2}, 1, 1);
    // The first is the head's, the second the last block's.
    const size_t given = place_of(log, "start zero reduce-scatter 2");
    const size_t block = place_of(log, "backward of block 1");
    BOOST_TEST(place_of(log, "backward of block 2") < given);
    BOOST_TEST(given < block);
    BOOST_TEST(place_of(log, "wait for zero reduce-scatter 2") > block);
}

BOOST_AUTO_TEST_CASE(copies_of_the_model_are_summed_while_the_block_before_goes_backward) {
    for (const mesh::Cuts& cuts : {zero1, zero2, zero3}) {
        const Log log = log_of_step({.shape = {2, 2, 1, 1}, .cuts = cuts}, 1, 1);
        // The first is the head's, the second the last block's, which the block before hides.
        for (int64_t block = 2; block > 0; --block) {
            const std::string sum = format_text("replicate all-reduce {}", 4 - block);
            const size_t given = place_of(log, format_text("start {}", sum));
            const size_t next =
                place_of(log, block > 1 ? format_text("backward of block {}", block - 2)
                                        : "backward of the embedding");
            BOOST_TEST(place_of(log, format_text("backward of block {}", block - 1)) < given);
            BOOST_TEST(given < next);
            BOOST_TEST(next < place_of(log, format_text("wait for {}", sum)));
        }
    }
}

BOOST_AUTO_TEST_CASE(updated_weights_travel_while_the_next_step_begins) {
    const Layout layout{.shape = {1, 4, 1, 1}, .cuts = zero1, .steps = 2};
    Log log = log_of_step(layout, 1, 1);
    const std::string_view gather = "start zero all-gather ";
    const auto next_step = std::ranges::find_if(
        log, [&](const std::string& line) { return line.starts_with(gather); });
    BOOST_REQUIRE((next_step != log.end()));
    const int first = std::stoi(next_step->substr(gather.size()));  // the embedding's
    log.erase(log.begin(), next_step);
    const auto waits_for = [&](int unit) {
        return place_of(log, format_text("wait for zero all-gather {}", first + unit));
    };
    // All are given at once, and each is waited for where its unit computes.
    BOOST_TEST(place_of(log, concat(gather, first + 2)) < place_of(log, "embedding"));
    BOOST_TEST(place_of(log, "embedding") < waits_for(0));
    BOOST_TEST(waits_for(0) < place_of(log, "forward of block 0"));
    BOOST_TEST(place_of(log, "forward of block 0") < waits_for(1));
    BOOST_TEST(waits_for(1) < place_of(log, "forward of block 1"));
    BOOST_TEST(place_of(log, "forward of block 1") < waits_for(2));
}

BOOST_AUTO_TEST_CASE(keys_go_round_the_ring_while_the_last_ones_are_met) {
    const Log log = log_of_step({.shape = {1, 1, 4, 1}, .cuts = nothing_cut}, 1, 1);
    const size_t block = place_of(log, "forward of block 0");
    for (int64_t step = 1; step <= 3; ++step) {
        const size_t given = place_of(log, format_text("start ring shift {}", step));
        const size_t waited = place_of(log, format_text("wait for ring shift {}", step));
        BOOST_TEST(block < given);
        BOOST_TEST(given < waited);
    }
}
