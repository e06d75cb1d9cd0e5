#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>

#include "counting_communicator.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/swiglu.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/train/compute_rate.hpp"

namespace ringshard::plan {

namespace {

// Returns the mean calls of `work` per second; the first call, in cold memory, does not count.
template <class Work>
double rate_of(Work work) {
    constexpr double long_enough = 0.2;  // seconds
    work();
    const Timer timer;
    int rounds = 0;
    for (; timer.seconds() < long_enough; ++rounds) work();
    return rounds / timer.seconds();
}

at::Tensor numbers(std::vector<int64_t> sizes, at::ScalarType type) {
    return at::ones(sizes, at::TensorOptions(at::kCPU).dtype(type)).mul_(0.01);
}

// Operations per second, or seconds, of each direction.
struct BothWays {
    double forward;
    double backward;
};

// The products of both layers of an MLP, as a block makes them: one forward and two back, which are
// other kernels and sum other lengths.
BothWays products(const ops::Gemms& gemms, at::ScalarType type) {
    constexpr int64_t tokens = 512;
    constexpr int64_t width = 512;
    constexpr int64_t inner = 1408;
    struct Layer {
        Layer(const ops::Gemms& products, int64_t in, int64_t out, at::ScalarType type)
            : gemms(products),
              x(numbers({tokens, in}, type)),
              weight(numbers({out, in}, type)),
              gradient(numbers({out, in}, at::kFloat)),
              y(ops::linear(gemms, x, weight)) {}
        void backward() const {
            ops::linear_backward_input(gemms, y, weight);
            ops::add_weight_gradient(gemms, gradient, y, x);
        }
        const ops::Gemms& gemms;
        at::Tensor x;
        at::Tensor weight;
        at::Tensor gradient;
        at::Tensor y;
    };
    const Layer gate_up(gemms, width, 2 * inner, type);
    const Layer down(gemms, inner, width, type);
    const double forward = 2.0 * tokens * width * 3 * inner;
    return {forward * rate_of([&] {
                ops::linear(gemms, gate_up.x, gate_up.weight);
                ops::linear(gemms, down.x, down.weight);
            }),
            2 * forward * rate_of([&] {
                gate_up.backward();
                down.backward();
            })};
}

// The cost of a query is linear in the keys before it, plus a constant: the masked part of the
// blocks on the diagonal, and the fixed cost of a row.
struct AttentionRate {
    double operations;  // a second
    double extra_keys;
};

// Two lengths of a document and the seconds they take; `per_pair`: operations for a query and a
// key.
AttentionRate rate_through(double per_pair, const std::array<int64_t, 2>& tokens,
                           const std::array<double, 2>& seconds) {
    const auto length = [&](size_t i) { return static_cast<double>(tokens[i]); };
    const auto of_a_query = [&](size_t i) { return seconds[i] / length(i); };
    const double of_a_key = (of_a_query(1) - of_a_query(0)) / ((length(1) - length(0)) / 2);
    const double extra_keys = of_a_query(0) / of_a_key - length(0) / 2;
    // If another process disturbed the timing, use the longer document alone.
    if (of_a_key <= 0 || extra_keys < 1) return {per_pair * length(1) / 2 / of_a_query(1), 1};
    return {per_pair / of_a_key, extra_keys};
}

// Seconds forward and backward over one document.
BothWays attention_seconds(int64_t tokens, at::ScalarType type, comm::Communicator& alone,
                           const attention::HeadCounts& heads) {
    const attention::SequenceAttention attention(heads, alone, alone, {});
    const attention::SequencePartition partition(tokens, {0}, 1, 1);
    const attention::Plan plan = attention::make_plan(partition, 0);
    const int64_t width = heads.query_heads * heads.head_dim;
    const at::Tensor qkv = numbers({tokens, width + 2 * heads.key_heads * heads.head_dim}, type);
    const at::Tensor d_out = numbers({tokens, width}, type);
    const auto result = attention.forward(qkv, plan);
    return {1 / rate_of([&] { attention.forward(qkv, plan); }),
            1 / rate_of([&] { attention.backward(d_out, qkv, result, plan); })};
}

void measure_attention(Device::Rates& rates, at::ScalarType type, comm::Communicator& alone) {
    constexpr attention::HeadCounts heads{8, 4, 64};
    constexpr std::array<int64_t, 2> tokens{384, 1536};
    const BothWays shorter = attention_seconds(tokens[0], type, alone, heads);
    const BothWays longer = attention_seconds(tokens[1], type, alone, heads);
    constexpr double per_pair = 4.0 * heads.query_heads * heads.head_dim;
    const auto forward = rate_through(per_pair, tokens, {shorter.forward, longer.forward});
    // Backward is 2.5 forward passes: the scores are made again in it.
    const auto backward = rate_through(2.5 * per_pair, tokens, {shorter.backward, longer.backward});
    rates.attention = forward.operations;
    rates.attention_extra_keys = forward.extra_keys;
    rates.attention_backward = backward.operations;
    rates.attention_backward_extra_keys = backward.extra_keys;
}

// A norm forward and backward, and the MLP's product: bytes read and written.
double row_bytes(at::ScalarType type) {
    constexpr int64_t tokens = 1024;
    constexpr int64_t width = 512;
    const at::Tensor x = numbers({tokens, width}, type);
    const at::Tensor weight = numbers({width}, type);
    const at::Tensor gradient = numbers({width}, at::kFloat);
    const at::Tensor gate_up = numbers({tokens, 2 * width}, type);
    constexpr double passes = 2 + 4 + 3;
    return passes * static_cast<double>(x.nbytes()) * rate_of([&] {
               const ops::RmsNormed normed = ops::rms_norm(x, weight, 1e-6);
               ops::rms_norm_backward(normed.y, x, normed.inverse_rms, weight, normed.y, gradient);
               ops::swiglu(gate_up);
           });
}

// Logits in a second, with their gradients.
double loss_logits() {
    constexpr int64_t tokens = 128;
    constexpr int64_t vocabulary = 8192;
    const at::Tensor logits = numbers({tokens, vocabulary}, at::kFloat);
    const at::Tensor targets = at::zeros({tokens}, at::TensorOptions(at::kLong));
    const at::Tensor token_stats = numbers({tokens, ops::stats_per_token}, at::kFloat);
    return tokens * vocabulary *
           rate_of([&] { ops::cross_entropy(logits, {targets}, 1e-3, {}, token_stats); });
}

// Bytes that an update of the usual optimizer reads and writes in a second.
double optimizer_bytes() {
    const config::TrainingSettings training;
    Traffic nothing{"none", 1, 0, 0};
    const mesh::Mesh alone({}, 0, at::kCPU, [&](const char*, int64_t place, int64_t) {
        return std::make_unique<CountingCommunicator>(nothing, place);
    });
    shard::UnitLayout layout("weights");
    layout.add({.tensors = {{"weight", {2048, 1024}}}});
    shard::Zero zero({layout.finish(1)}, {}, {at::kFloat, at::kFloat}, alone);
    zero.clear_gradients();
    const auto optimizer = optim::make_optimizer(zero, training);
    return static_cast<double>(optim::update_bytes(training) * zero.units().front().size()) *
           rate_of([&] { optimizer->step(zero, training.learning_rate, 1.0); });
}

// Bytes per second of a copy that is larger than the caches.
double copy_bytes() {
    constexpr int64_t elements = int64_t{1} << 25;
    const at::Tensor from = numbers({elements}, at::kFloat);
    const at::Tensor into = numbers({elements}, at::kFloat);
    return static_cast<double>(from.nbytes()) * rate_of([&] { into.copy_(from); });
}

// Bytes per second that a rank sends in a large all-reduce.
double link_bytes(comm::Communicator& all) {
    constexpr double nobody_to_send_to = 2e9;
    if (all.size() == 1) return nobody_to_send_to;
    const at::Tensor sum = numbers({int64_t{1} << 20}, at::kFloat);
    constexpr int rounds = 8;
    all.all_reduce(sum).wait();
    const Timer timer;
    for (int round = 0; round < rounds; ++round) all.all_reduce(sum).wait();
    return rounds * 2.0 * static_cast<double>(sum.nbytes()) * (all.size() - 1) / all.size() /
           timer.seconds();
}

}  // namespace

Device measure_host(comm::Communicator& all, int64_t ranks) {
    const c10::InferenceMode no_autograd;
    Traffic nothing{"none", 1, 0, 0};
    CountingCommunicator alone(nothing, 0);
    const ops::Gemms gemms = ops::Gemms::open().value();
    const auto rates = [&](at::ScalarType type) {
        const BothWays with_weights = products(gemms, type);
        Device::Rates reached{.products = with_weights.forward,
                              .products_backward = with_weights.backward,
                              .row_bytes = row_bytes(type),
                              .peak = train::measured_peak(gemms, at::kCPU, type)};
        measure_attention(reached, type, alone);
        return reached;
    };
    const auto free_memory = static_cast<double>(device::free_host_memory());
    Device device{
        .name = "cpu", .memory_bytes = free_memory / static_cast<double>(ranks), .is_host = true};
    device.bf16 = rates(at::kBFloat16);
    device.fp32 = rates(at::kFloat);
    device.loss_logits = loss_logits();
    device.optimizer_bytes = optimizer_bytes();
    device.host_copy_bytes = copy_bytes();
    constexpr double of_a_usual_drive = 1.5e9;  // no setting names the drive
    device.scratch_bytes = of_a_usual_drive;
    device.save_bytes = of_a_usual_drive;
    device.host_memory = free_memory;
    device.link_bytes = link_bytes(all);
    device.network_bytes = device.link_bytes;
    return device;
}

}  // namespace ringshard::plan
