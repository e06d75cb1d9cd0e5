#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "counting_communicator.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/device/host.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/flat.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/swiglu.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/train/compute_rate.hpp"

namespace ringshard::plan {

namespace {

// How often in a second, in the mean of some rounds; the first one meets cold memory.
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

// The three products of both layers of an MLP, as a block makes them.
double products(at::ScalarType type) {
    constexpr int64_t tokens = 512;
    constexpr int64_t width = 512;
    constexpr int64_t inner = 1408;
    struct Layer {
        Layer(int64_t in, int64_t out, at::ScalarType type)
            : x(numbers({tokens, in}, type)),
              weight(numbers({out, in}, type)),
              gradient(numbers({out, in}, at::kFloat)) {}
        void pass() const {
            const at::Tensor y = ops::linear(x, weight);
            ops::linear_backward_input(y, weight);
            ops::add_weight_gradient(gradient, y, x);
        }
        at::Tensor x;
        at::Tensor weight;
        at::Tensor gradient;
    };
    const Layer gate_up(width, 2 * inner, type);
    const Layer down(inner, width, type);
    return 3 * 2.0 * tokens * width * 3 * inner * rate_of([&] {
               gate_up.pass();
               down.pass();
           });
}

// Forward and backward over one document, counted as 3.5 forward passes.
double attention(at::ScalarType type, comm::Communicator& alone) {
    constexpr int64_t tokens = 1024;
    constexpr attention::HeadCounts heads{8, 4, 64};
    const attention::SequenceAttention attention(heads, alone, alone, {});
    const attention::SequencePartition partition(tokens, {0}, 1, 1);
    const attention::Plan plan = attention::make_plan(partition, 0);
    const at::Tensor qkv = numbers({tokens, 16 * 64}, type);
    const at::Tensor d_out = numbers({tokens, 8 * 64}, type);
    const double forward = 4.0 * 8 * 64 * tokens * tokens / 2;
    return 3.5 * forward * rate_of([&] {
               const auto result = attention.forward(qkv, plan);
               attention.backward(d_out, qkv, result, plan);
           });
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
    const at::Tensor of_tokens = numbers({tokens, ops::numbers_of_token}, at::kFloat);
    return tokens * vocabulary *
           rate_of([&] { ops::cross_entropy(logits, targets, 1e-3, {}, of_tokens); });
}

constexpr double optimizer_bytes_of_a_weight = 28;

double optimizer_bytes() {
    constexpr int64_t weights = int64_t{1} << 21;
    const auto one = [] { return numbers({weights}, at::kFloat); };
    const ops::AdamWBuffers buffers{one(), one(), one(), one(), {}, 0};
    return optimizer_bytes_of_a_weight * weights * rate_of([&] {
               ops::adamw(buffers, {1e-5, 0.9, 0.999, 1e-8, 0, 1, 1});
           });
}

// What a rank sends in a second of a large sum.
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
    const auto rates = [&](at::ScalarType type) {
        return Device::Rates{products(type), attention(type, alone), row_bytes(type),
                             train::measured_peak(at::kCPU, type)};
    };
    Device device{.name = "cpu",
                  .memory_bytes =
                      static_cast<double>(device::free_host_memory()) / static_cast<double>(ranks),
                  .is_host = true};
    device.bf16 = rates(at::kBFloat16);
    device.fp32 = rates(at::kFloat);
    device.loss_logits = loss_logits();
    device.optimizer_bytes = optimizer_bytes();
    constexpr double of_a_usual_drive = 1.5e9;  // which one is meant, nobody has said
    device.scratch_bytes = of_a_usual_drive;
    device.link_bytes = link_bytes(all);
    device.network_bytes = device.link_bytes;
    return device;
}

}  // namespace ringshard::plan
