// bench_gpu_step CONFIG_JSON ROWS LENGTH POLICY MOMENTS SECONDS [offload | graphs] [layers=N]:
// steps of one rank over random tokens with random weights, in bf16 on the first GPU
// (RINGSHARD_TEST_DEVICE says another device). Prints a line of JSON. POLICY: all, attention or
// input. MOMENTS: fp32 or bf16. It takes three steps at least, and as many as fit into SECONDS;
// long steps need no others that warm up, so of these it takes two or one. offload: activations go
// to the host's memory. graphs: blocks are recorded and replayed.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>

#include "ringshard/base/narrow.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/device/device.hpp"
#include "ringshard/device/environment.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/offload/host_offload_store.hpp"
#include "ringshard/train/trainer.hpp"
#include "ringshard/train/training_stack.hpp"

using namespace ringshard;

namespace {

data::Rows random_rows(int64_t count, int64_t length, int64_t vocabulary) {
    std::mt19937 random(1);
    data::SampleList samples;
    for (int64_t row = 0; row < count; ++row) {
        std::vector<int32_t> tokens(static_cast<size_t>(length));
        for (int32_t& token : tokens)
            token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary));
        samples.add(tokens, tokens);
    }
    data::TokenStore store(std::move(samples));
    std::vector<int64_t> all(static_cast<size_t>(store.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    data::RowReport report;
    data::RowPlan plan = data::plan_rows(store, all, {}, report);
    return {std::move(store), std::move(plan)};
}

void draw_weights(shard::Zero& zero) {
    for (size_t chunk = 0; chunk < zero.chunks().size(); ++chunk) {
        const auto& [unit, range] = zero.chunks()[chunk];
        const at::Tensor numbers = zero.weight_shards().load(chunk, shard::Access::overwrite);
        const int64_t matrices = std::clamp(zero.units()[unit].matrices_end() - range.begin,
                                            int64_t{0}, numbers.numel());
        numbers.narrow(0, 0, matrices).normal_(0, 0.02);
        numbers.narrow(0, matrices, numbers.numel() - matrices).fill_(1);
        zero.weight_shards().store(chunk, numbers);
    }
    zero.refresh_compute_weights();
}

config::ActivationPolicy policy_named(std::string_view name) {
    if (name == "all") return config::ActivationPolicy::all;
    if (name == "input") return config::ActivationPolicy::input;
    RINGSHARD_CHECK(name == "attention", name);
    return config::ActivationPolicy::attention;
}

// Room in the host's memory for what is kept of every block, so that no step is seen to wait for
// it.
void reserve_activations(offload::HostOffloadStore& offload_store, const model::ModelSpec& spec,
                         config::ActivationPolicy policy, int64_t tokens) {
    RINGSHARD_CHECK(policy != config::ActivationPolicy::all, "offload what is kept of attention");
    const auto& [query_heads, key_heads, head_dim] = spec.heads();
    const bool keeps_attention = policy == config::ActivationPolicy::attention;
    const int64_t out_and_lse = keeps_attention ? query_heads * (2 * head_dim + 4) : 0;
    constexpr int64_t alignment = 4096;
    offload_store.reserve(std::ssize(spec.blocks) *
                          (tokens * (2 * spec.width + out_and_lse) + 2 * alignment));
    if (const auto failure = offload_store.allocate()) throw Error(*failure);
}

bool is_enough(const std::vector<double>& seconds, double all, double wished) {
    if (seconds.empty()) return false;
    const bool warms_itself_up = seconds.back() > 30;
    const bool needs_one_before = seconds.back() > 10;
    const size_t least = warms_itself_up ? 1 : needs_one_before ? 2 : 3;
    return seconds.size() >= least && all >= wished;
}

at::Device wished_device() {
    const char* const wish = std::getenv("RINGSHARD_TEST_DEVICE");
    return at::Device(wish == nullptr ? "cuda:0" : wish);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 7) return 64;
    device::prepare_environment(Environment::of_this_process());
    const comm::MpiSession mpi;
    const c10::InferenceMode no_autograd;
    device::keep_host_memory();
    const at::Device device = wished_device();
    device::make_current(device);

    model::ModelSpec spec = model::read_model_spec(argv[1]).value();
    const int64_t num_rows = std::stoll(argv[2]);
    const int64_t length = std::stoll(argv[3]);
    bool offloads = false;
    std::unique_ptr<model::Recorder> recorder;
    for (int i = 7; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "offload")
            offloads = true;
        else if (word == "graphs")
            recorder = model::make_recorder(device);
        else if (word.starts_with("layers="))
            spec.blocks.resize(std::stoull(word.substr(7)), spec.blocks.front());
        else
            return 64;
    }

    const data::Rows rows = random_rows(num_rows, length, spec.vocabulary);
    config::Config config;
    config.training.max_steps = 1'000'000;
    config.training.per_device_train_batch_size = rows.size();
    config.training.learning_rate = 1e-5;
    config.training.optimizer_state_dtype =
        std::string_view(argv[5]) == "bf16" ? config::NumberType::bf16 : config::NumberType::fp32;
    const mesh::Mesh mesh(mpi.world(), {}, device);
    std::unique_ptr<offload::HostOffloadStore> offload_store;
    if (offloads) {
        offload_store = std::make_unique<offload::HostOffloadStore>(device);
        reserve_activations(*offload_store, spec, policy_named(argv[4]), num_rows * length);
    }
    config.training.activation_policy = policy_named(argv[4]);
    train::TrainingStack stack(config, spec, mesh,
                               {.activations = offload_store.get(), .recorder = recorder.get()});
    draw_weights(stack.zero);
    data::Loader loader(rows, data::sampler_options(config, rows, {}), 0, 1);
    train::Trainer trainer(config.training, mpi.world(), mesh, loader, stack.transformer,
                           stack.zero, *stack.optimizer);

    const double most_seconds = std::stod(argv[6]);
    std::vector<double> seconds;
    double operations = 0;
    double loss = 0;
    const Timer all;
    device::MemoryUse memory;
    while (!is_enough(seconds, all.seconds(), most_seconds)) {
        const Timer timer;
        // Its last act on the host is to read the loss and the norm: the device has done them.
        const auto numbers = trainer.step([] { return train::ControlFlags(); });
        seconds.push_back(timer.seconds());
        operations = numbers.value().operations;
        loss = numbers.value().loss;
        memory = device::take_memory_use(device);
    }
    const size_t warm = seconds.size() > 1 ? 1 : 0;  // the first one warms up
    std::sort(seconds.begin() + static_cast<std::ptrdiff_t>(warm), seconds.end());
    const double median = seconds[warm + (seconds.size() - warm) / 2];
    std::cout << "{\"tokens_per_step\": " << num_rows * length
              << ", \"layers\": " << spec.blocks.size() << ", \"steps\": " << seconds.size()
              << ", \"seconds\": " << median
              << ", \"tokens_per_second\": " << static_cast<double>(num_rows * length) / median
              << ", \"tflops\": " << operations / median / 1e12 << ", \"loss\": " << loss
              << ", \"peak_tensors\": " << memory.tensors
              << ", \"peak_allocator\": " << memory.process << ", \"driver\": " << memory.driver
              << ", \"host_bytes\": " << (offload_store ? offload_store->bytes() : 0) << "}"
              << std::endl;
}
