// bench_gpu_step CONFIG_JSON ROWS LENGTH POLICY MOMENTS SECONDS [WORD...]: steps of one rank over
// random tokens with random weights, in bf16 (or FP8) on the first GPU (RINGSHARD_TEST_DEVICE says
// another device). Prints a line of JSON. POLICY: everything, all, all_but_gate_up, attention or
// input. MOMENTS: fp32 or bf16. It takes three steps at least, and as many as fit into SECONDS;
// long steps need no others that warm up, so of these it takes two or one. Words:
//
//   offload        activations go to the host's memory
//   graphs         blocks are recorded and replayed
//   layers=N       of so many blocks
//   accumulate=N   a step has so many micro-batches of ROWS
//   packed         a row is one document of five eighths of it and short ones
//   deterministic  FlashAttention-2 attends, and not cuDNN
//   timed          kernels of products are chosen by time, as a run in bf16 does
//   fp8            products in FP8 with a scale for each row
//   profile        one more step under LibTorch's profiler: its kernels, the longest first
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <random>

#include "gpu_gemm.hpp"
#include "json_number.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
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

struct Wish {
    int64_t num_rows = 0;  // of a micro-batch
    int64_t length = 0;
    bool offloads = false;
    bool records = false;
    int64_t layers = 0;  // 0: all
    int64_t accumulation = 1;
    bool packs = false;
    bool profiles = false;
    bool times_products = false;
    bool in_fp8 = false;
    int64_t tokens_per_step() const { return num_rows * length * accumulation; }
};

bool read_word(const std::string& word, Wish& wish) {
    const auto number = [&](const char* name, int64_t& into) {
        if (!word.starts_with(name)) return false;
        into = std::stoll(word.substr(std::string_view(name).size()));
        return true;
    };
    if (word == "deterministic") at::globalContext().setDeterministicAlgorithms(true, true);
    wish.offloads |= word == "offload";
    wish.records |= word == "graphs";
    wish.packs |= word == "packed";
    wish.profiles |= word == "profile";
    wish.times_products |= word == "timed";
    wish.in_fp8 |= word == "fp8";
    return word == "fp8" || word == "deterministic" || word == "offload" || word == "graphs" ||
           word == "packed" || word == "profile" || word == "timed" ||
           number("layers=", wish.layers) || number("accumulate=", wish.accumulation);
}

// The lengths of the documents of a row. Each short one divides the longer: however they are
// packed, they fill as many rows.
std::vector<int64_t> documents_of(const Wish& wish) {
    if (!wish.packs) return {wish.length};
    std::vector<int64_t> lengths{wish.length * 5 / 8};
    int64_t left = wish.length - lengths.front();
    const auto add = [&](int64_t length) {
        lengths.push_back(std::min(left, length));
        left -= lengths.back();
    };
    while (left > 0) add(lengths.back() == 512 ? 256 : 512);
    return lengths;
}

data::Rows random_rows(const Wish& wish, int64_t vocabulary) {
    std::mt19937 random(1);
    data::SampleList samples;
    const std::vector<int64_t> documents = documents_of(wish);
    for (int64_t i = 0; i < wish.num_rows * wish.accumulation * std::ssize(documents); ++i) {
        std::vector<int32_t> tokens(
            static_cast<size_t>(documents[static_cast<size_t>(i % std::ssize(documents))]));
        for (int32_t& token : tokens)
            token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary));
        samples.add(tokens, tokens);
    }
    data::TokenStore store(std::move(samples));
    std::vector<int64_t> all(static_cast<size_t>(store.size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    data::RowReport report;
    data::RowSettings settings{.max_length = wish.length};
    if (wish.packs) {
        settings.packs = true;
        settings.strategy = config::PackingStrategy::bfd;
    }
    data::RowPlan plan = data::plan_rows(store, all, settings, report);
    return {std::move(store), std::move(plan)};
}

// The same weights in every run, whose losses are compared: a timing of products draws numbers too.
void draw_weights(shard::Zero& zero) {
    at::manual_seed(1);
    for (size_t chunk = 0; chunk < zero.shelves().front().chunks.size(); ++chunk) {
        const auto& [unit, range] = zero.shelves().front().chunks[chunk];
        const at::Tensor numbers =
            zero.shelves().front().exact().load(chunk, shard::Access::overwrite);
        const int64_t matrices = std::clamp(zero.units()[unit].matrices_end() - range.begin,
                                            int64_t{0}, numbers.numel());
        numbers.narrow(0, 0, matrices).normal_(0, 0.02);
        numbers.narrow(0, matrices, numbers.numel() - matrices).fill_(1);
        zero.shelves().front().exact().store(chunk, numbers);
    }
    zero.refresh_compute_weights();
}

config::ActivationPolicy policy_named(std::string_view name) {
    if (name == "everything") return config::ActivationPolicy::everything;
    if (name == "all") return config::ActivationPolicy::all;
    if (name == "all_but_gate_up") return config::ActivationPolicy::all_but_gate_up;
    if (name == "input") return config::ActivationPolicy::input;
    RINGSHARD_CHECK(name == "attention", "{}", name);
    return config::ActivationPolicy::attention;
}

// Room in the host's memory for what is kept of every block, so that no step is seen to wait for
// it.
void reserve_activations(offload::HostOffloadStore& offload_store, const model::ModelSpec& spec,
                         config::ActivationPolicy policy, int64_t tokens) {
    RINGSHARD_CHECK(policy > config::ActivationPolicy::all, "offload what is kept of attention");
    const auto& [query_heads, key_heads, head_dim] = spec.heads();
    const bool keeps_attention = policy == config::ActivationPolicy::attention;
    const int64_t out_and_lse = keeps_attention ? query_heads * (2 * head_dim + 4) : 0;
    constexpr int64_t alignment = 4096;
    offload_store.reserve(std::ssize(spec.blocks) *
                          (tokens * (2 * spec.width + out_and_lse) + 2 * alignment));
    if (const auto failure = offload_store.allocate()) throw Error(*failure);
}

std::string quoted(const std::string& text) {
    constexpr size_t longest = 160;  // of a kernel's name with its template arguments
    std::string safe;
    for (const char c : text.substr(0, longest))
        safe += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    return format_text("\"{}\"", safe);
}

// Spans of a device cover the kernels that were started in them, which would count twice.
bool is_work_of(at::Device device, const torch::autograd::profiler::KinetoEvent& event) {
    using libkineto::ActivityType;
    const auto type = static_cast<ActivityType>(event.activityType());
    return event.deviceType() == device.type() && type != ActivityType::USER_ANNOTATION &&
           type != ActivityType::GPU_USER_ANNOTATION && type != ActivityType::CUDA_SYNC &&
           type != ActivityType::CUDA_EVENT && type != ActivityType::OVERHEAD;
}

// Runs the work under LibTorch's profiler. Returns what ran on the device, as JSON: by name, those
// that took most of the time first.
std::string profile(at::Device device, const std::function<void()>& work) {
    namespace profiler = torch::autograd::profiler;
    using torch::profiler::impl::ActivityType;
    const torch::profiler::impl::ProfilerConfig wish(torch::profiler::impl::ProfilerState::KINETO);
    std::set<ActivityType> activities{ActivityType::CPU};
    if (device.is_cuda()) activities.insert(ActivityType::CUDA);
    profiler::prepareProfiler(wish, activities);
    profiler::enableProfiler(wish, activities);
    work();
    const auto result = profiler::disableProfiler();

    struct Sum {
        std::string name;
        int64_t count = 0;
        double microseconds = 0;
    };
    std::map<std::string, Sum> by_name;
    double all = 0;
    for (const auto& event : result->events()) {
        if (!is_work_of(device, event)) continue;
        Sum& sum = by_name[event.name()];
        sum.name = event.name();
        sum.count += 1;
        sum.microseconds += static_cast<double>(event.durationNs()) / 1e3;
        all += static_cast<double>(event.durationNs()) / 1e3;
    }
    std::vector<Sum> sums;
    for (const auto& [name, sum] : by_name) sums.push_back(sum);
    std::ranges::sort(sums, std::greater(), &Sum::microseconds);
    std::string text = format_text("\"device_microseconds\": {}, \"kernels\": [", all);
    for (const Sum& sum : sums)
        text += format_text("{}{{\"name\": {}, \"count\": {}, \"microseconds\": {}}}",
                            &sum == sums.data() ? "" : ", ", quoted(sum.name), sum.count,
                            sum.microseconds);
    return text + "]";
}

bool is_enough(const std::vector<double>& seconds, double all, double wished) {
    if (seconds.empty()) return false;
    const bool warms_itself_up = seconds.back() > 30;
    const bool needs_one_before = seconds.back() > 10;
    const size_t least = warms_itself_up ? 1 : needs_one_before ? 2 : 3;
    return seconds.size() >= least && all >= wished;
}

double memory_of(at::Device device) {
    if (!device.is_cuda()) return 0;
    return static_cast<double>(
        device::visible_gpus().at(static_cast<size_t>(device.index())).memory_bytes);
}

// Returns how many of the products take another kernel than the library's own choice.
int64_t choose_kernels(const comm::Group& world, const config::Config& config,
                       const model::ModelSpec& spec, const ops::Gemms& gemms, double memory) {
    const auto kernels = ops::open_product_kernels(gemms);
    const run::GemmTable table =
        run::choose_kernels(world, *kernels, run::products_of_step(config, spec, {}, memory), {});
    return std::ranges::count_if(table.products,
                                 [](const auto& product) { return product.second != "0"; });
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
    Wish wish{.num_rows = std::stoll(argv[2]), .length = std::stoll(argv[3])};
    for (int i = 7; i < argc; ++i)
        if (!read_word(argv[i], wish)) return 64;
    if (wish.times_products && !device.is_cuda()) {
        std::cerr << "timed: kernels are chosen by time on a GPU alone\n";
        return 64;
    }
    std::unique_ptr<model::Recorder> recorder;
    if (wish.records) recorder = model::make_recorder(device);
    if (wish.layers > 0) spec.blocks.resize(static_cast<size_t>(wish.layers), spec.blocks.front());

    const data::Rows rows = random_rows(wish, spec.vocabulary);
    config::Config config;
    config.training.max_steps = 1'000'000;
    RINGSHARD_CHECK(rows.size() == wish.num_rows * wish.accumulation, "{} rows", rows.size());
    config.training.per_device_train_batch_size = wish.num_rows;
    config.training.gradient_accumulation_steps = wish.accumulation;
    config.training.learning_rate = 1e-5;
    config.training.optimizer_state_dtype =
        std::string_view(argv[5]) == "bf16" ? config::NumberType::bf16 : config::NumberType::fp32;
    const mesh::Mesh mesh(mpi.world(), {}, device);
    std::unique_ptr<offload::HostOffloadStore> offload_store;
    if (wish.offloads) offload_store = std::make_unique<offload::HostOffloadStore>(device);
    config.training.activation_policy = policy_named(argv[4]);
    config.training.mixed_precision =
        wish.in_fp8 ? config::Precision::fp8 : config::Precision::bf16;
    config.data.max_length = wish.length;
    const double of_device = memory_of(device);
    const ops::Gemms gemms = device.is_cuda() ? ops::Gemms() : ops::Gemms::open().value();
    const int64_t other_kernels =
        wish.times_products ? choose_kernels(mpi.world(), config, spec, gemms, of_device) : 0;
    train::TrainingStack stack(config, spec, mesh,
                               {.activations = offload_store.get(),
                                .gemms = &gemms,
                                .device_memory = of_device,
                                .recorder = recorder.get()});
    draw_weights(stack.zero);
    // Pinning takes up to a minute: only for a model that fits.
    if (offload_store)
        reserve_activations(*offload_store, spec, policy_named(argv[4]),
                            wish.num_rows * wish.length);
    data::Loader loader(rows, data::sampler_options(config, rows, 1), 0, wish.accumulation);
    train::Trainer trainer(config.training, mpi.world(), mesh, loader, stack.transformer,
                           stack.zero, *stack.optimizer);

    const double most_seconds = std::stod(argv[6]);
    std::vector<double> seconds;
    std::vector<train::StepNumbers> steps;
    const Timer all;
    device::MemoryUse memory;
    const auto step = [&] {
        const Timer timer;
        // Its last act on the host is to read the loss and the norm: the device has done them.
        steps.push_back(trainer.step([] { return train::ControlFlags(); }));
        return timer.seconds();
    };
    while (!is_enough(seconds, all.seconds(), most_seconds)) {
        seconds.push_back(step());
        memory = device::take_memory_use(device);
    }
    const std::string kernels = wish.profiles ? ", " + profile(device, step) : "";
    const size_t warm = seconds.size() > 1 ? 1 : 0;  // the first one warms up
    std::sort(seconds.begin() + static_cast<std::ptrdiff_t>(warm), seconds.end());
    const double median = seconds[warm + (seconds.size() - warm) / 2];
    const std::set<std::string>& operators = steps.front().attention;
    std::cout << "{\"tokens_per_step\": " << wish.tokens_per_step()
              << ", \"layers\": " << spec.blocks.size() << ", \"steps\": " << seconds.size()
              << ", \"seconds\": " << median
              << ", \"tokens_per_second\": " << static_cast<double>(wish.tokens_per_step()) / median
              << ", \"tflops\": " << json_number(steps.back().operations / median / 1e12)
              << ", \"first_loss\": " << json_number(steps.front().loss)
              << ", \"first_grad_norm\": " << json_number(steps.front().grad_norm)
              << ", \"loss\": " << json_number(steps.back().loss)
              << ", \"attention\": " << quoted(join({operators.begin(), operators.end()}, " and "))
              << ", \"peak_tensors\": " << memory.tensors
              << ", \"peak_allocator\": " << memory.process << ", \"driver\": " << memory.driver
              << ", \"other_kernels\": " << other_kernels
              << ", \"host_bytes\": " << (offload_store ? offload_store->bytes() : 0) << kernels
              << "}" << std::endl;
}
