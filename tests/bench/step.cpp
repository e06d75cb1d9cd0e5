// bench_step MODEL_FOLDER ROWS fp32|bf16 all|all_but_gate_up|attention|input [ADAPTER_FOLDER |
// --rows_of_step N]: one rank's training steps on command. MODEL_FOLDER is a Hugging Face folder,
// ROWS a file with one row of tokens per line; every step is over all rows, or over the next N.
// Prints a line when it is ready; then a line of numbers for each line on stdin: "step" is one
// step, by Trainer::step() as in `trainer train`. With ADAPTER_FOLDER a PEFT adapter is trained
// beside the frozen model; "save FOLDER" writes it, and "load" reads it again.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <ctime>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/device/environment.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/hub/weights.hpp"
#include "ringshard/peft/named_adapters.hpp"
#include "ringshard/peft/written_adapter.hpp"
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
    RINGSHARD_CHECK(name == "attention", "{}", name);
    return config::ActivationPolicy::attention;
}

struct Times {
    double wall = seconds_of(CLOCK_MONOTONIC);
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
};

// The first members of a line of numbers.
void print_times(const Times& since) {
    std::cout << "{\"ms\": " << 1e3 * (seconds_of(CLOCK_MONOTONIC) - since.wall)
              << ", \"cpu_ms\": " << 1e3 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - since.cpu);
}

// A PEFT adapter beside the model; none where the folder is empty.
struct Adapter {
    std::filesystem::path folder;
    std::string config;

    void add_to(model::ModelSpec& spec) const {
        if (folder.empty()) return;
        auto lora = peft::parse_adapter_config(config, folder.string());
        if (const auto failure = peft::add_adapter(spec, lora.value())) throw Error(*failure);
    }
    // Fills the shards of trained weights.
    void load(const model::ModelSpec& spec, shard::Zero& zero, const comm::Group& group) const {
        const std::vector<peft::AdapterOrigin> origins{
            {{}, hub::StoredModel::open_file(folder / hub::adapter_weights_name, group).value()}};
        if (const auto failure =
                peft::check_adapter(*origins.front().stored, spec, folder.string()))
            throw Error(*failure);
        shard::TensorSums none({});
        if (const auto failure = hub::load_weights(peft::with_adapters({}, spec, origins), spec,
                                                   zero, zero.trained_weights(), none))
            throw Error(*failure);
        zero.refresh_compute_weights();
    }
    void save(const std::filesystem::path& into, const shard::Zero& zero,
              const comm::Group& group) const {
        if (const auto failure = hub::export_weights(
                zero, into, {{peft::adapter_config_name, config}},
                {.adapter = peft::written_adapter(zero.units(), {}, nullptr)}, group))
            throw Error(static_cast<const Failure&>(*failure));
    }
};

void load_base(const std::filesystem::path& folder, const model::ModelSpec& spec,
               shard::Zero& zero) {
    const auto stored = hub::StoredModel::open(folder);
    ByteCounter read;
    shard::TensorSums none({});
    const auto reader = hub::reader_of(stored.value(), spec, read);
    const auto into = spec.frozen.empty() ? zero.all_weights() : zero.frozen_weights();
    if (const auto failure = hub::load_weights(reader, spec, zero, into, none))
        throw Error(*failure);
    zero.refresh_compute_weights();
}

// The end of a pass: the times at which the model reports the phase behind it.
struct PassEnd {
    Times times;
    void note(const std::string& phase) {
        if (phase == "after the pass") times = Times();
    }
};

void step(train::Trainer& trainer, const PassEnd& pass_end) {
    device::restart_host_memory_peak();
    const device::HostMemoryUse before = device::host_memory_use();
    const Times begin;
    const auto numbers = trainer.step([] { return train::ControlFlags(); });
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    print_times(begin);
    std::cout << ", \"pass_ms\": " << 1e3 * (pass_end.times.wall - begin.wall)
              << ", \"pass_cpu_ms\": " << 1e3 * (pass_end.times.cpu - begin.cpu)
              << ", \"loss\": " << numbers.loss << ", \"norm\": " << numbers.grad_norm
              << ", \"peak_activations\": " << device::host_memory_use().peak - before.live
              << ", \"peak_rss\": " << usage.ru_maxrss * int64_t{1024} << "}" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
    const bool takes_some_rows = argc == 7 && std::string_view(argv[5]) == "--rows_of_step";
    if (argc != 5 && argc != 6 && !takes_some_rows) return 64;
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
    config.training.per_device_train_batch_size =
        takes_some_rows ? std::stoll(argv[6]) : rows.size();
    const mesh::Mesh mesh(mpi.world(), {}, at::kCPU);
    const std::filesystem::path folder = argv[1];
    Adapter adapter;
    if (argc == 6)
        adapter = {argv[5],
                   read_file(std::filesystem::path(argv[5]) / "adapter_config.json").value()};
    auto read = model::read_model_spec(folder / "config.json");
    model::ModelSpec& spec = read.value();
    adapter.add_to(spec);
    config.training.mixed_precision =
        std::string_view(argv[3]) == "bf16" ? config::Precision::bf16 : config::Precision::fp32;
    config.training.activation_policy = policy_named(argv[4]);
    PassEnd pass_end;
    train::TrainingStack stack(
        config, spec, mesh, {.on_phase = [&](const std::string& phase) { pass_end.note(phase); }});
    load_base(folder, spec, stack.zero);
    if (!adapter.folder.empty()) adapter.load(spec, stack.zero, mpi.world());
    data::Loader loader(rows, data::sampler_options(config, rows, 1), 0, 1);
    train::Trainer trainer(config.training, mpi.world(), mesh, loader, stack.transformer,
                           stack.zero, *stack.optimizer);

    std::cout << "{\"ready\": true}" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        if (line == "step") {
            step(trainer, pass_end);
            continue;
        }
        const Times begin;
        if (line == "load") {
            model::ModelSpec anew = model::read_model_spec(folder / "config.json").value();
            adapter.add_to(anew);
            adapter.load(anew, stack.zero, mpi.world());
        } else {
            adapter.save(line.substr(line.find(' ') + 1), stack.zero, mpi.world());
        }
        print_times(begin);
        std::cout << "}" << std::endl;
    }
}
