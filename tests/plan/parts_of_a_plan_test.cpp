// What a plan is made of, each part by itself: what there is too little of, what a save costs, what
// an update reads and writes.
#include <boost/test/unit_test.hpp>

#include "ringshard/config/config.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/room.hpp"
#include "ringshard/plan/step_time.hpp"

using namespace ringshard;

namespace {

constexpr int64_t ranks_per_node = 4;

plan::Device device(bool is_host) {
    plan::Device made{.name = "made", .memory_bytes = 1000, .is_host = is_host};
    made.host_memory = 5000;
    made.scratch_room = 2000;
    made.host_copy_bytes = 10;
    made.save_bytes = 100;
    return made;
}

plan::StepPlan step(int64_t peak) {
    plan::StepPlan plan{};
    plan.memory = {};
    plan.peak = peak;
    return plan;
}

std::string short_of(const plan::StepPlan& plan, bool is_host) {
    const auto shortage = plan::find_shortage(plan, device(is_host), ranks_per_node);
    return shortage ? shortage->of : "nothing";
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_step_is_short_of) {
    plan::StepPlan plan = step(1000);
    BOOST_TEST(short_of(plan, true) == "nothing");
    BOOST_TEST(short_of(plan, false) == "nothing");
    plan.memory.save_copy = 1;  // lies beside the rest on the host, and is not needed beside a GPU
    BOOST_TEST(plan::held_bytes(plan, device(true)) == 1001);
    BOOST_TEST(plan::held_bytes(plan, device(false)) == 1000);
    BOOST_TEST(short_of(plan, true) == "memory of a rank");
    BOOST_TEST(short_of(plan, false) == "nothing");
    plan = step(1001);
    BOOST_TEST(short_of(plan, false) == "memory of the device");
    plan = step(10);
    plan.scratch_bytes = 501;  // of each of four ranks
    BOOST_TEST(short_of(plan, true) == "room for files of a node");
    plan = step(10);
    plan.memory.staging = 1251;
    BOOST_TEST(short_of(plan, false) == "host memory of a node");
    BOOST_TEST(short_of(plan, true) == "memory of a rank");
}

BOOST_AUTO_TEST_CASE(what_a_save_costs) {
    plan::StepPlan plan = step(10);
    plan.memory.save_copy = 50;
    plan.saved_bytes = 75;
    const plan::SaveTime copied = plan::estimate_save(plan, device(false), ranks_per_node);
    BOOST_TEST(copied.is_copied);
    BOOST_TEST(copied.stall == 5);        // 50 bytes at 10 a second
    BOOST_TEST(copied.durable == 5 + 3);  // and four ranks write 300 at 100
    plan.memory.save_copy = 2000;         // of four ranks more than the node has
    const plan::SaveTime written = plan::estimate_save(plan, device(false), ranks_per_node);
    BOOST_TEST(!written.is_copied);
    BOOST_TEST(written.stall == 3);
    BOOST_TEST(written.durable == 3);
    BOOST_TEST(plan::estimate_save(plan, device(true), ranks_per_node).is_copied);
}

BOOST_AUTO_TEST_CASE(what_an_update_moves) {
    config::TrainingSettings training;
    BOOST_TEST(optim::state_bytes(training) == 8);
    BOOST_TEST(optim::update_bytes(training) == 28);  // master and two moments, and the gradient
    training.optimizer_state_dtype = config::NumberType::bf16;
    BOOST_TEST(optim::update_bytes(training) == 20);
    training.optim = config::Optimizer::lion;
    BOOST_TEST(optim::state_bytes(training) == 2);
    BOOST_TEST(optim::update_bytes(training) == 16);
}

// The time of an update follows the weights that a rank updates, whatever a copy of them takes.
BOOST_AUTO_TEST_CASE(the_seconds_of_an_update) {
    const model::ModelSpec spec = model::read_model_spec(MODEL).value();
    plan::Device made = device(true);
    made.optimizer_bytes = 1e6;
    for (const auto optimizer : {config::Optimizer::adamw, config::Optimizer::lion}) {
        config::Config config;
        config.training.optim = optimizer;
        const plan::Question question{config, spec, {.shard = 2}, 16};
        plan::StepPlan plan = step(10);
        const int64_t weights = 1000;
        plan.memory.save_copy = weights * (4 + optim::state_bytes(config.training));
        const plan::StepTime time = plan::estimate_seconds(question, plan, made, ranks_per_node);
        const auto bytes = static_cast<double>(optim::update_bytes(config.training));
        const double ranks = mesh::cuts_of(config.parallel).optimizer ? 1 : 2;
        BOOST_TEST(std::abs(time.optimizer - ranks * weights * bytes / 1e6) < 1e-12);
    }
}

namespace {

// A block of Qwen2.5-0.5B on a GPU whose memory and attention have simple rates.
plan::StepTime time_of_block(config::ActivationPolicy policy, int64_t documents) {
    model::ModelSpec spec;
    spec.vocabulary = 1000;
    spec.width = 896;
    spec.blocks.resize(1);
    spec.blocks.front().width = 896;
    spec.blocks.front().attention.heads = {14, 2, 64};
    spec.blocks.front().mlp.intermediate = 4864;
    config::Config config;
    config.training.per_device_train_batch_size = 1;
    config.training.gradient_accumulation_steps = 1;
    config.training.activation_policy = policy;
    plan::Question question{config, spec, {}, 32768, c10::DeviceType::CUDA};
    question.documents = documents;
    plan::Device gpu = plan::find_device("h200-141", 1).value();
    gpu.bf16.row_bytes = 896 * 2 * 32768;  // a pass of the residual stream in a second
    gpu.bf16.attention_extra_keys = gpu.bf16.attention_backward_extra_keys = 0;
    return plan::estimate_seconds(question, step(10), gpu, 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_pinned_before_the_first_step) {
    const model::ModelSpec spec = model::read_model_spec(MODEL).value();
    config::Config config;
    config.training.activation_policy = config::ActivationPolicy::all;
    const auto planned = [&](bool offloads) {
        config.training.activation_offloading = offloads;
        return plan::plan_step({config, spec, {}, 64, c10::DeviceType::CUDA}, 1);
    };
    const plan::StepPlan offloading = planned(true);
    BOOST_TEST(offloading.offloaded_activations > 0);
    BOOST_TEST(offloading.offloaded_activations == offloading.memory.staging);
    BOOST_TEST(planned(false).offloaded_activations == 0);
}

// As gpu_passes_test counts them, but for sums of gradients of norms.
BOOST_AUTO_TEST_CASE(rows_that_a_gpu_reads_and_writes) {
    using config::ActivationPolicy;
    const auto near = boost::test_tools::tolerance(1e-3);
    BOOST_TEST(time_of_block(ActivationPolicy::all, 1).rows == 69.71, near);
    BOOST_TEST(time_of_block(ActivationPolicy::everything, 1).rows == 62.29, near);
    BOOST_TEST(time_of_block(ActivationPolicy::attention, 1).rows == 76.00, near);
}

BOOST_AUTO_TEST_CASE(documents_share_a_row) {
    using config::ActivationPolicy;
    const auto attention = [](int64_t documents) {
        return time_of_block(ActivationPolicy::all, documents).attention;
    };
    const auto near = boost::test_tools::tolerance(1e-3);
    BOOST_TEST(attention(1) / attention(2) == 2.0, near);
    BOOST_TEST(attention(1) / attention(4) == 4.0, near);
    // Below 8,192 tokens they share calls of a slower kernel.
    BOOST_TEST(attention(1) / attention(8) == 8 / 1.9, near);
    const auto of_peak = [](int64_t documents) {
        return time_of_block(ActivationPolicy::all, documents).utilisation;
    };
    BOOST_TEST(of_peak(8) < of_peak(4));
}

BOOST_AUTO_TEST_CASE(chunks_follow_the_memory_of_the_device) {
    using model::Chunks;
    model::ModelSpec spec;  // the sizes of Qwen2.5-7B
    spec.vocabulary = 151936;
    spec.blocks.resize(1);
    spec.blocks.front().width = 3584;
    spec.blocks.front().mlp.intermediate = 18944;
    const auto chunks = [&](double memory, at::ScalarType type = at::kBFloat16,
                            c10::DeviceType device = c10::DeviceType::CUDA) {
        return model::chunks_of(spec, type, device, memory);
    };
    BOOST_TEST((chunks(40e9) == Chunks{4096, 4096, 512}));
    BOOST_TEST((chunks(85e9) == Chunks{8192, 8192, 512}));
    BOOST_TEST((chunks(150e9) == Chunks{8192, 16384, 512}));
    BOOST_TEST((chunks(150e9, at::kFloat) == Chunks{4096, 8192, 512}));
    BOOST_TEST((chunks(1e9) == Chunks{1024, 2048, 512}));
    BOOST_TEST((chunks(1e13) == Chunks{16384, 65536, 512}));
    BOOST_TEST((chunks(0) == Chunks{4096, 8192, 512}));
    BOOST_TEST((chunks(150e9, at::kBFloat16, c10::DeviceType::CPU) == Chunks{}));
}
