// bench_step MODEL_FOLDER ROWS fp32|bf16 all|all_but_gate_up|attention|input: one rank's training
// steps on command. MODEL_FOLDER is a Hugging Face folder, ROWS a file with one row of tokens per
// line; every step is over all rows. Prints a line when it is ready; then, for each line on stdin,
// takes one step and prints its numbers. Trainer::step() runs, as in `trainer train`.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <ctime>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

#include "ringshard/base/narrow.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/device/environment.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/model/weights.hpp"
#include "ringshard/train/trainer.hpp"
#include "ringshard/train/training_stack.hpp"

using namespace ringshard;

namespace {

data::Rows read_rows(const std::filesystem::path& file) {
    data::SampleList samples;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
        std::istringstream numbers(line);
        std::vector<int32_t> tokens;
        for (int32_t token = 0; numbers >> token;) tokens.push_back(token);
        samples.add(tokens, tokens);
    }
    data::TokenStore store(std::move(samples));
    std::vector<int64_t> all(static_cast<size_t>(store.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    data::RowReport report;
    data::RowPlan plan = data::plan_rows(store, all, {}, report);
    return {std::move(store), std::move(plan)};
}

double seconds_of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

config::ActivationPolicy policy_named(std::string_view name) {
    if (name == "all") return config::ActivationPolicy::all;
    if (name == "input") return config::ActivationPolicy::input;
    if (name == "all_but_gate_up") return config::ActivationPolicy::all_but_gate_up;
    RINGSHARD_CHECK(name == "attention", name);
    return config::ActivationPolicy::attention;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 64;
    const Environment environment = Environment::of_this_process();
    device::prepare_environment(environment);
    const comm::MpiSession mpi;
    const c10::InferenceMode no_autograd;
    device::keep_host_memory();
    at::set_num_threads(narrow<int>(
        device::choose_num_threads({}, environment, device::describe_host(), 1).value()));

    const data::Rows rows = read_rows(argv[2]);
    config::Config config;
    config.training.max_steps = 1'000'000;
    config.training.per_device_train_batch_size = rows.size();
    const mesh::Mesh mesh(mpi.world(), {}, at::kCPU);
    const std::filesystem::path folder = argv[1];
    const auto spec = model::read_model_spec(folder / "config.json");
    config.training.mixed_precision =
        std::string_view(argv[3]) == "bf16" ? config::Precision::bf16 : config::Precision::fp32;
    config.training.activation_policy = policy_named(argv[4]);
    train::TrainingStack stack(config, spec.value(), mesh, {});
    {
        const auto stored = model::StoredModel::open(folder);
        ByteCounter read;
        if (const auto failure =
                model::load_weights(stored.value(), spec.value(), stack.zero, read))
            throw Error(*failure);
        stack.zero.refresh_compute_weights();
    }
    data::Loader loader(rows, data::sampler_options(config, rows, {}), 0, 1);
    train::Trainer trainer(config.training, mpi.world(), mesh, loader, stack.transformer,
                           stack.zero, *stack.optimizer);

    std::cout << "{\"ready\": true}" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        device::restart_host_memory_peak();
        const device::HostMemoryUse before = device::host_memory_use();
        const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        const double wall = seconds_of(CLOCK_MONOTONIC);
        const auto numbers = trainer.step([] { return train::ControlFlags(); });
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        std::cout << "{\"ms\": " << 1e3 * (seconds_of(CLOCK_MONOTONIC) - wall)
                  << ", \"cpu_ms\": " << 1e3 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu)
                  << ", \"loss\": " << numbers.value().loss
                  << ", \"norm\": " << numbers.value().grad_norm
                  << ", \"peak_activations\": " << device::host_memory_use().peak - before.live
                  << ", \"peak_rss\": " << usage.ru_maxrss * int64_t{1024} << "}" << std::endl;
    }
}
