// No stream of a GPU reads or overwrites what another one still writes or reads. The sources that
// have streams (NCCL's communicator, the copies of offloaded state, CUDA graphs) run here as they
// are, on the model of streams, under the steps of a whole model. Two ranks, each of which has a
// model of its own GPU.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <cublas_v2.h>

#include <boost/test/unit_test.hpp>
#include <random>
#include <stdexcept>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "nccl_communicator.hpp"
#include "observed_operations.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/offload/host_offload_store.hpp"
#include "ringshard/train/training_stack.hpp"
#include "shard_batch.hpp"
#include "stream_model.hpp"

using namespace ringshard;

namespace {

struct Layout {
    const char* name;
    mesh::MeshShape shape{.shard = 2};
    mesh::Cuts cuts;
    bool offloads = false;  // weights, optimizer state and activations
    bool records = false;
};

constexpr mesh::Cuts zero1{.optimizer = true, .keeps_weights_after_forward = false};
constexpr mesh::Cuts zero2{
    .optimizer = true, .gradients = true, .keeps_weights_after_forward = false};
constexpr mesh::Cuts zero3{
    .optimizer = true, .gradients = true, .weights = true, .keeps_weights_after_forward = false};

// Rows of one length, which a recorder records.
data::FlatBatch batch_of(uint32_t seed) {
    std::mt19937 random(seed);
    data::FlatBatch batch;
    for (int row = 0; row < 2; ++row) {
        batch.document_starts.push_back(static_cast<int64_t>(batch.tokens.size()));
        for (int i = 0; i < 12; ++i) {
            batch.tokens.push_back(static_cast<int64_t>(random() % 500));
            batch.targets.push_back(static_cast<int64_t>(random() % 500));
        }
    }
    return batch;
}

struct Stores {
    std::unique_ptr<offload::OffloadStore> weights;
    std::unique_ptr<offload::OffloadStore> optimizer;
    std::unique_ptr<offload::OffloadStore> activations;
};
Stores open_stores(bool offloads) {
    const auto open = [&]() -> std::unique_ptr<offload::OffloadStore> {
        if (!offloads) return nullptr;
        return std::make_unique<offload::HostOffloadStore>(at::kCPU);
    };
    return {open(), open(), open()};
}

void fill(shard::Zero& zero) {
    for (const shard::Zero::Weights& weights : zero.all_weights())
        for (size_t chunk = 0; chunk < weights.chunks.size(); ++chunk) {
            const at::Tensor numbers = weights.shards.load(chunk, shard::Access::overwrite);
            numbers.normal_(0, 0.02);
            weights.shards.store(chunk, numbers);
        }
    zero.refresh_compute_weights();
}

void run_steps(const Layout& layout, test::StreamModel& streams) {
    const c10::InferenceMode no_autograd;
    const test::Observing observing;
    const mesh::Mesh mesh(test::world(), layout.shape, at::kCPU);
    const model::ModelSpec spec =
        model::read_model_spec(test::golden_folder() / "models" / "qwen3-tiny" / "config.json")
            .value();
    const Stores stores = open_stores(layout.offloads);
    const auto recorder =
        layout.records ? model::make_recorder(at::kCPU) : std::unique_ptr<model::Recorder>();
    train::TrainingStack stack(
        {.cuts = layout.cuts,
         .types = {at::kBFloat16, at::kFloat},
         .state = {layout.cuts.weights ? stores.weights.get() : nullptr, stores.optimizer.get()},
         .transformer = {.policies = config::ActivationPolicy::attention,
                         .activations = stores.activations.get(),
                         .recorder = recorder.get(),
                         .on_phase = [&](const std::string& phase) { streams.phase = phase; }}},
        spec, mesh);
    for (offload::OffloadStore* const store : {stores.weights.get(), stores.optimizer.get()})
        if (store != nullptr) BOOST_REQUIRE(!store->allocate());
    shard::Zero& zero = stack.zero;
    fill(zero);
    for (uint32_t step = 0; step < 3; ++step) {
        zero.clear_gradients();
        for (uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
            if (micro_batch == 1) zero.begin_last_micro_batch();
            stack.transformer.forward_backward(train::shard_batch(batch_of(10 * step + micro_batch),
                                                                  mesh, stack.transformer.masks()),
                                               0.01);
        }
        streams.phase = "the end of a step";
        zero.finish_gradients();
        zero.gradient_squares();
        stack.optimizer->step(zero, 1e-3, 1.0);
        zero.refresh_compute_weights();
    }
    if (layout.records) BOOST_TEST(stack.transformer.replays().replayed > 0);
}

std::vector<Layout> layouts() {
    return {{.name = "zero1", .cuts = zero1},
            {.name = "zero2", .cuts = zero2},
            {.name = "zero3", .cuts = zero3},
            {.name = "hybrid", .shape = {.replicate = 2}, .cuts = zero3},
            {.name = "ring", .shape = {.ring = 2}, .cuts = zero3},
            {.name = "ulysses", .shape = {.ulysses = 2}, .cuts = zero2},
            {.name = "zero2, offloaded", .cuts = zero2, .offloads = true},
            {.name = "zero3, offloaded", .cuts = zero3, .offloads = true},
            {.name = "zero3, recorded", .cuts = zero3, .records = true}};
}

std::string text_of(const std::set<std::string>& races) {
    std::string text;
    for (const std::string& race : races) text += race + "\n";
    return text;
}

// A communicator between hosts, whose operations take multiprocessors from products.
struct BetweenHosts {
    test::StreamModel streams;
    comm::NcclCommunicator nccl{test::world().split(0, "between hosts"), at::kCPU, true};
    at::Tensor in = at::ones({64});
    at::Tensor out = at::empty({128});

    // Begins an operation, which nobody awaits.
    void fail(comm::NcclCommunicator& communicator) const {
        const comm::Pending gather = communicator.all_gather(out, in);
        throw std::runtime_error("a step failed");
    }
};
constexpr int without_nccl = 132 - 16;

}  // namespace

BOOST_AUTO_TEST_CASE(events_order_all_accesses_of_a_step) {
    for (const Layout& layout : layouts()) {
        test::StreamModel streams;
        run_steps(layout, streams);
        BOOST_TEST(streams.races().empty(), layout.name << ":\n" << text_of(streams.races()));
        // The stream that computes, and every other one, have done work.
        BOOST_TEST(streams.num_launches(0) > 500, layout.name);
        int busy = 0;
        for (int stream = 1; stream < streams.num_streams(); ++stream)
            busy += streams.num_launches(stream) > 0 ? 1 : 0;
        BOOST_TEST(busy >= (layout.offloads ? 5 : 1), layout.name);
    }
}

// Without the waits of one place of the sources, accesses are not ordered. A recorder's stream runs
// nothing by itself, so nothing depends on its wait.
BOOST_AUTO_TEST_CASE(a_wait_that_is_left_out_is_found) {
    std::map<std::string, int> found;
    for (const Layout& layout : layouts()) {
        test::StreamModel all;
        run_steps(layout, all);
        for (const std::string& place : all.places_of_waits()) {
            if (found[place] > 0) continue;  // another layout has shown it
            test::StreamModel without;
            without.leave_out(place);
            run_steps(layout, without);
            found[place] += static_cast<int>(without.races().size());
        }
    }
    BOOST_TEST(found.size() == 5);
    for (const auto& [place, races] : found) {
        BOOST_TEST_MESSAGE("without the waits of " << place << ": " << races << " races");
        BOOST_TEST((races > 0) == !place.starts_with("recorder_cuda.cpp"), place);
    }
}

BOOST_FIXTURE_TEST_CASE(an_operation_left_behind_takes_multiprocessors_until_the_next,
                        BetweenHosts) {
    comm::Pending before = nccl.all_gather(out, in);
    BOOST_TEST(multiprocessor_target == without_nccl);
    BOOST_CHECK_THROW(fail(nccl), std::runtime_error);
    // Another operation is under way still.
    BOOST_TEST(multiprocessor_target == without_nccl);
    before.wait();
    nccl.all_gather(out, in).wait();
    BOOST_TEST(multiprocessor_target == 0);
}

BOOST_FIXTURE_TEST_CASE(the_end_of_a_communicator_frees_its_multiprocessors, BetweenHosts) {
    const auto fail_alone = [&] {
        comm::NcclCommunicator alone(test::world().split(0, "alone"), at::kCPU, true);
        fail(alone);
    };
    BOOST_CHECK_THROW(fail_alone(), std::runtime_error);
    BOOST_TEST(multiprocessor_target == 0);
    // Not those that an operation of another group has taken since.
    auto other =
        std::make_unique<comm::NcclCommunicator>(test::world().split(0, "other"), at::kCPU, true);
    BOOST_CHECK_THROW(fail(*other), std::runtime_error);
    comm::Pending gather = nccl.all_gather(out, in);
    other.reset();
    BOOST_TEST(multiprocessor_target == without_nccl);
    gather.wait();
    BOOST_TEST(multiprocessor_target == 0);
}
