// Plans of many rows and micro-batches, extrapolated from fewer, against plans that simulate all of
// them.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/config/resolve.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/plan/step_plan.hpp"

using namespace ringshard;

namespace {

const config::OptionTable table;

config::Config config_of(std::vector<std::string> flags) {
    const config::Resolution resolution = config::resolve(table, flags, Environment());
    BOOST_TEST_REQUIRE(resolution.problems.empty());
    return resolution.settings.values;
}

model::ModelSpec tiny_model() {
    auto spec = model::read_model_spec(MODEL);
    BOOST_TEST_REQUIRE(bool(spec));
    return std::move(spec).value();
}

int64_t total(const train::MemoryByKind& memory) {
    return memory.weights + memory.gathered + memory.gradients + memory.optimizer +
           memory.activations + memory.communication + memory.staging + memory.save_copy;
}

int64_t peak_bytes_of_process() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return 1024 * usage.ru_maxrss;
}

}  // namespace

BOOST_AUTO_TEST_CASE(more_rows_and_micro_batches_are_continued) {
    const model::ModelSpec spec = tiny_model();
    struct Case {
        std::vector<std::string> flags;
        mesh::MeshShape shape;
    };
    for (const Case& asked :
         {Case{{"--activation_policy", "all"}, {1, 1, 1, 1}},
          Case{{"--activation_policy", "input", "--profile", "zero3"}, {1, 4, 1, 1}},
          Case{{"--activation_policy", "attention", "--profile", "zero2"}, {1, 2, 2, 1}},
          Case{{"--activation_policy", "all_but_gate_up", "--profile", "zero1"}, {1, 2, 1, 1}},
          Case{{"--activation_offloading", "true", "--offload_dir", "/tmp"}, {1, 1, 1, 1}}}) {
        BOOST_TEST_INFO_SCOPE(asked.flags[1] << ' ' << to_text(asked.shape));
        std::vector<std::string> flags = asked.flags;
        flags.insert(flags.end(), {"--per_device_train_batch_size", "256",
                                   "--gradient_accumulation_steps", "7"});
        const config::Config config = config_of(flags);
        plan::Question question{config, spec, asked.shape, 512};
        question.most_micro_batches = 7;
        const plan::StepPlan exact = plan::plan_step(question, 1);
        question.most_tokens = 64 * 512;
        question.most_micro_batches = 4;
        const plan::StepPlan plan = plan::plan_step(question, 1);
        BOOST_TEST(plan.imaginary_tokens < exact.imaginary_tokens / 2);
        BOOST_TEST(std::abs(total(plan.memory) - total(exact.memory)) < total(exact.memory) / 100);
        BOOST_TEST(std::abs(plan.peak - exact.peak) < exact.peak / 100);
        BOOST_TEST(plan.peak_at == exact.peak_at);
        BOOST_TEST(plan.scratch_bytes == exact.scratch_bytes);
        BOOST_TEST(plan.moved_bytes == exact.moved_bytes);
        BOOST_TEST_REQUIRE(plan.traffic.size() == exact.traffic.size());
        for (size_t i = 0; i < plan.traffic.size(); ++i) {
            BOOST_TEST(plan.traffic[i].bytes == exact.traffic[i].bytes);
            BOOST_TEST(plan.traffic[i].operations == exact.traffic[i].operations);
        }
    }
}

// 2 billion tokens a micro-batch: indices alone were 17 GB each.
BOOST_AUTO_TEST_CASE(a_plan_costs_the_same_for_any_number_of_rows) {
    const model::ModelSpec spec = tiny_model();
    const int64_t before = peak_bytes_of_process();
    const config::Config config = config_of(
        {"--per_device_train_batch_size", "4096", "--gradient_accumulation_steps", "1000"});
    const plan::Question question{config, spec, {1, 1, 1, 1}, 550'000};
    const plan::StepPlan plan = plan::plan_step(question, 1);
    BOOST_TEST(plan.imaginary_tokens == 2 * (1 + 2) * (3 + 4) * 550'000);
    BOOST_TEST(total(plan.memory) > int64_t{4096} * 550'000);
    BOOST_TEST(peak_bytes_of_process() - before < int64_t{100} << 20);
}

// A GPU's memory decides how many tokens an MLP takes at a time: model::chunks_of().
BOOST_AUTO_TEST_CASE(a_plan_has_the_chunks_of_the_memory_it_is_asked_for) {
    model::ModelSpec spec = tiny_model();
    for (model::BlockSpec& block : spec.blocks) block.mlp().intermediate = 8192;
    const config::Config config = config_of({"--activation_policy", "input"});
    plan::Question question{config, spec, {1, 1, 1, 1}, 32768, c10::DeviceType::CUDA};
    const auto activations = [&](double bytes) {
        question.device_memory = bytes;
        return plan::plan_step(question, 1).memory.activations;
    };
    BOOST_TEST(activations(1e6) < activations(64e9));
}
