// A whole step of the GPU path, counted where the host runs its kernels: from the tokens of a batch
// to the updated weights. Every copy between the host and the device, and every wait, is seen here.
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>
#include <numeric>

#include "gpu_ledger.hpp"
#include "mpi_test.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/train/trainer.hpp"
#include "ringshard/train/training_stack.hpp"

using namespace ringshard;
using test::Counting;
using test::Ledger;

namespace {

model::ModelSpec spec_of_step() { return model::read_model_spec(MODEL).value(); }

// Rows of so many tokens, in which documents of these lengths are packed.
data::Rows rows_of(const std::vector<int64_t>& documents, int64_t num_rows) {
    data::SampleList samples;
    for (int64_t row = 0; row < num_rows; ++row)
        for (const int64_t length : documents) {
            std::vector<int32_t> tokens(static_cast<size_t>(length));
            for (size_t i = 0; i < tokens.size(); ++i)
                tokens[i] = static_cast<int32_t>(7 * i % 100);
            samples.add(tokens, tokens);
        }
    data::TokenStore store(std::move(samples));
    std::vector<int64_t> all(static_cast<size_t>(store.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    data::RowReport report;
    data::RowSettings settings{.max_length = std::reduce(documents.begin(), documents.end())};
    settings.packs = documents.size() > 1;
    settings.strategy = config::PackingStrategy::bfd;
    data::RowPlan plan = data::plan_rows(store, all, settings, report);
    return {std::move(store), std::move(plan)};
}

struct Step {
    std::vector<int64_t> documents{64};  // of a row
    int64_t micro_batches = 1;
    model::ModelSpec spec = spec_of_step();
};

// The second step: the first one makes what lasts.
Ledger work_of_step(const Step& step, int64_t zero_stage) {
    const c10::InferenceMode no_autograd;
    config::Config config;
    config.training.max_steps = 3;
    config.training.per_device_train_batch_size = 1;
    config.training.gradient_accumulation_steps = step.micro_batches;
    config.training.mixed_precision = config::Precision::bf16;
    config.training.activation_policy = config::ActivationPolicy::all;
    config.parallel.distributed_type = config::DistributedType::deepspeed;
    config.parallel.zero_stage = zero_stage;
    const mesh::Mesh mesh(test::world(), {}, at::kCPU);
    const ops::Gemms gemms = ops::Gemms::open().value();
    train::TrainingStack stack(config, step.spec, mesh, {.gemms = &gemms});
    for (size_t chunk = 0; chunk < stack.zero.shelves().front().chunks.size(); ++chunk) {
        const at::Tensor numbers =
            stack.zero.shelves().front().exact().load(chunk, shard::Access::overwrite);
        numbers.normal_(0, 0.02);
        stack.zero.shelves().front().exact().store(chunk, numbers);
    }
    stack.zero.refresh_compute_weights();
    const data::Rows rows = rows_of(step.documents, 3 * step.micro_batches);
    data::Loader loader(rows, data::sampler_options(config, rows, 1), 0, step.micro_batches);
    train::Trainer trainer(config.training, test::world(), mesh, loader, stack.transformer,
                           stack.zero, *stack.optimizer);
    const auto run = [&] { return trainer.step([] { return train::ControlFlags(); }); };
    run();
    Ledger counted;
    {
        const Counting counting(counted);
        run();
    }
    return counted;
}

struct Expected {
    int64_t to_device;
    int64_t to_host;
    int64_t launches;
};

void check(const Ledger& work, const Expected& expected) {
    int64_t launches = 0;
    for (const auto& [name, count] : work.counts) {
        if (count.launches > 0) BOOST_TEST_MESSAGE(name << ": " << count.launches);
        launches += count.launches;
    }
    BOOST_TEST_MESSAGE("together " << launches << " launches, " << work.to_device
                                   << " copies to the device, " << work.to_host << " back, "
                                   << work.other_copies << " others, " << work.waits << " waits");
    BOOST_TEST(work.waits == 0);
    BOOST_TEST(work.other_copies == 0);
    BOOST_TEST(work.to_device == expected.to_device);
    BOOST_TEST(work.to_host == expected.to_host);
    BOOST_TEST(launches <= expected.launches);
}

}  // namespace

// A micro-batch copies its tokens, their positions and the lengths of their documents, targets and
// their places; a packed one also where documents begin. A step reads back the sums of the losses
// of its micro-batches, and of its gradients, together.
BOOST_AUTO_TEST_CASE(a_step_copies_its_batches_and_reads_back_their_sums) {
    // Sharded gradients are added to their shards, and gathered weights have a copy.
    const std::vector<int64_t> launches{109, 117, 117, 125};
    for (int64_t stage = 0; stage < std::ssize(launches); ++stage) {
        BOOST_TEST_INFO_SCOPE("ZeRO " << stage);
        check(work_of_step({}, stage),
              {.to_device = 5, .to_host = 1, .launches = launches[static_cast<size_t>(stage)]});
    }
    check(work_of_step({.micro_batches = 2}, 0), {.to_device = 10, .to_host = 1, .launches = 189});
    check(work_of_step({.documents = {40, 5, 19}}, 0),
          {.to_device = 7, .to_host = 1, .launches = 109});
}
