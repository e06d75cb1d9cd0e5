// bench_gpu_kernels [small]: the products, row kernels, attention and copies of a training step,
// one by one, in bf16 on the first GPU (RINGSHARD_TEST_DEVICE names another device). Prints a line
// of JSON for each as soon as it has it. small: sizes with which a processor is done in seconds.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cstdlib>
#include <functional>
#include <iostream>

#include "gpu/fp8_kernels.hpp"
#include "json_number.hpp"
#include "local_attention.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/device/device.hpp"
#include "ringshard/device/environment.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/offload/host_offload_store.hpp"
#include "ringshard/ops/causal_conv.hpp"
#include "ringshard/ops/cross_entropy.hpp"
#include "ringshard/ops/delta_rule.hpp"
#include "ringshard/ops/embedding.hpp"
#include "ringshard/ops/flat.hpp"
#include "ringshard/ops/fp8.hpp"
#include "ringshard/ops/head_gradients.hpp"
#include "ringshard/ops/linear.hpp"
#include "ringshard/ops/merge_attention.hpp"
#include "ringshard/ops/product_kernels.hpp"
#include "ringshard/ops/rms_norm.hpp"
#include "ringshard/ops/rope.hpp"
#include "ringshard/ops/swiglu.hpp"
#include "ringshard/ops/updates.hpp"
#include "tile_pack.hpp"

using namespace ringshard;

namespace {

class Bench {
public:
    Bench(at::Device device, bool is_small)
        : device_(device),
          is_small_(is_small),
          small_number_(at::zeros({1}, at::TensorOptions(device))),
          gemms_(device.is_cpu() ? ops::Gemms::open().value() : ops::Gemms()) {}

    void products() const;
    void rows() const;
    void head_gradients() const;
    void rounding_to_fp8() const;
    void states() const;
    void attention() const;
    void copies() const;

private:
    int64_t scaled(int64_t size, int64_t by = 16) const {
        return is_small_ ? std::max<int64_t>(64, size / by) : size;
    }
    at::Tensor random(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) const {
        return at::randn(sizes, at::TensorOptions(device_).dtype(type));
    }
    void wait() const { small_number_.item(); }  // for all that the device has to do

    // Returns the seconds of one call.
    double seconds_of(const std::function<void()>& work) const {
        work();  // warms up
        wait();
        int64_t rounds = 0;
        const Timer timer;
        do {
            for (int i = 0; i < 4; ++i) work();
            rounds += 4;
            wait();
        } while (timer.seconds() < (is_small_ ? 0.01 : 0.1));
        return timer.seconds() / static_cast<double>(rounds);
    }
    static void print(const char* table, const std::string& shape, const char* what, double seconds,
                      const char* unit, double amount) {
        std::cout << "{\"table\": \"" << table << "\", \"shape\": \"" << shape << "\", \"what\": \""
                  << what << "\", \"microseconds\": " << json_number(seconds * 1e6) << ", \""
                  << unit << "\": " << json_number(amount / seconds) << "}" << std::endl;
    }
    void attention_rows(int64_t tokens, int64_t width, const ops::RopeTable& table) const;
    void timed_products(const ops::LayerProduct& forward) const;
    void attention_of(const std::string& shape, const std::vector<int64_t>& starts, int64_t tokens,
                      const attention::HeadCounts& heads) const;

    at::Device device_;
    bool is_small_;
    at::Tensor small_number_;
    ops::Gemms gemms_;
};

// Of the blocks and heads of Qwen2.5 0.5B and 7B, and of Llama 8B.
void Bench::products() const {
    struct Shape {
        int64_t tokens;
        int64_t in;
        int64_t out;
    };
    for (const Shape& full : {Shape{16384, 896, 1152},
                              {16384, 896, 896},
                              {16384, 896, 9728},
                              {16384, 4864, 896},
                              {4096, 896, 151936},
                              {16384, 3584, 4608},
                              {16384, 3584, 3584},
                              {8192, 3584, 37888},
                              {8192, 18944, 3584},
                              {16384, 4096, 6144},
                              {16384, 4096, 4096},
                              {8192, 4096, 28672},
                              {8192, 14336, 4096},
                              {4096, 4096, 128256}}) {
        const int64_t tokens = scaled(full.tokens);
        const int64_t in = scaled(full.in);
        const int64_t out = scaled(full.out);
        const std::string shape = format_text("{} x {} x {}", tokens, in, out);
        const at::Tensor x = random({tokens, in});
        const at::Tensor dy = random({tokens, out});
        const at::Tensor weight = random({out, in});
        const at::Tensor sum = random({out, in}, at::kFloat);
        const double teraflops = 2e-12 * static_cast<double>(tokens * in * out);
        const auto measure = [&](const char* what, const std::function<void()>& work) {
            print("products", shape, what, seconds_of(work), "tflops", teraflops);
        };
        measure("forward", [&] { ops::linear(gemms_, x, weight); });
        measure("input gradient", [&] { ops::linear_backward_input(gemms_, dy, weight); });
        measure("weight gradient", [&] { ops::add_weight_gradient(gemms_, sum, dy, x); });
        measure("weight gradient, written",
                [&] { ops::add_weight_gradient(gemms_, sum, dy, x, true); });
        const at::Tensor addend = random({tokens, out});
        measure("forward, with an addend", [&] { ops::linear_add(gemms_, x, weight, {}, addend); });
        timed_products({ops::GemmPass::forward, tokens, out, in});
        if (!ops::fits_fp8(out, in) || device::check_fp8(device_, device::visible_gpus())) continue;
        measure("forward in FP8", [&] { ops::fp8_linear(gemms_, x, weight); });
        measure("input gradient in FP8",
                [&] { ops::fp8_linear_backward_input(gemms_, dy, weight, ops::Fp8Format::e4m3); });
        const at::Tensor number = at::zeros({1}, x.options().dtype(at::kInt));
        const std::pair<const char*, ops::DelayedScale> recipes[] = {
            {"tensorwise", {}}, {"delayed", {number, number.clone(), tokens}}};
        for (const auto& [recipe, delayed] : recipes) {
            measure(format_text("forward in FP8, {}", recipe).c_str(), [&] {
                ops::fp8_linear(gemms_, x, weight, {}, ops::Fp8Scales::of_tensor, delayed);
            });
            measure(format_text("input gradient in FP8, {}", recipe).c_str(), [&] {
                ops::fp8_linear_backward_input(gemms_, dy, weight, ops::Fp8Format::e4m3,
                                               ops::Fp8Scales::of_tensor, delayed);
            });
        }
    }
}

// The fastest of the kernels among which a run chooses.
void Bench::timed_products(const ops::LayerProduct& forward) const {
    if (!device_.is_cuda()) return;
    const auto kernels = ops::open_product_kernels(gemms_);
    for (const ops::GemmPass pass : ops::gemm_passes) {
        ops::LayerProduct product = forward;
        product.pass = pass;
        if (!ops::is_worth_timing(product)) continue;
        const int64_t count = kernels->count(product);
        const std::vector<double> seconds = ops::time_kernels(*kernels, product, count);
        const int64_t fastest = ops::fastest_kernel(seconds);
        print("products", ops::name_of(product),
              format_text("kernel {} of {}", fastest, count).c_str(),
              seconds.at(static_cast<size_t>(fastest)), "tflops",
              2e-12 * static_cast<double>(product.tokens * product.out * product.in));
    }
}

// Rows around attention. The heads are 64 wide, and all of them have keys.
void Bench::attention_rows(int64_t tokens, int64_t width, const ops::RopeTable& table) const {
    const int64_t heads = width / 64;
    const std::string shape = format_text("{} x {} x 64", tokens, heads);
    const double row = 2e-9 * static_cast<double>(tokens * width);
    const auto measure = [&](const char* what, double passes, const std::function<void()>& work) {
        print("rows", shape, what, seconds_of(work), "gb_per_second", passes * row);
    };
    const at::Tensor d_heads = random({1, tokens, heads, 64});
    const at::Tensor rows = random({tokens, 3 * width});
    const at::Tensor d_bias = random({3 * width}, at::kFloat);
    // A build without CUDA has separate passes in its place.
    if constexpr (RINGSHARD_HAS_CUDA)
        measure("put_head_gradients", 6, [&] {
            ops::put_head_gradients({d_heads, d_heads, d_heads, rows, 0, tokens, &table, d_bias});
        });
    const ops::SeenKeys seen{random({1, tokens, heads, 64}, at::kFloat),
                             random({1, tokens, heads}, at::kFloat)};
    const ops::SeenKeys more{d_heads, random({1, tokens, heads}, at::kFloat)};
    measure("merge_attention", 5, [&] { ops::merge_attention(seen, more); });
}

// As an operator of attention returns them: with the sums of a bias (Qwen), and without (Llama).
void Bench::head_gradients() const {
    struct Shape {
        int64_t query_heads, key_heads, head_dim;
        bool has_bias;
    };
    const int64_t tokens = scaled(16384);
    for (const Shape& shape :
         {Shape{14, 2, 64, true}, {28, 4, 128, true}, {32, 8, 128, true}, {32, 8, 128, false}}) {
        const auto& [query_heads, key_heads, head_dim, has_bias] = shape;
        const int64_t width = (query_heads + 2 * key_heads) * head_dim;
        const at::Tensor dq = random({1, tokens, query_heads, head_dim});
        const at::Tensor dk = random({1, tokens, key_heads, head_dim});
        const at::Tensor dv = random({1, tokens, key_heads, head_dim});
        const at::Tensor rows = random({tokens, width});
        const at::Tensor d_bias = has_bias ? random({width}, at::kFloat) : at::Tensor();
        const ops::RopeTable table =
            ops::make_rope_table(at::arange(tokens, at::TensorOptions(device_).dtype(at::kLong)),
                                 at::rand({head_dim / 2}, at::TensorOptions(device_)), 1.0);
        print("rows",
              format_text("{} tokens, heads {}/{} x {}", tokens, query_heads, key_heads, head_dim),
              has_bias ? "put_head_gradients and a bias" : "put_head_gradients without a bias",
              seconds_of([&] {
                  ops::put_head_gradients({dq, dk, dv, rows, 0, tokens, &table, d_bias});
              }),
              "gb_per_second", 4e-9 * static_cast<double>(tokens * width));
    }
}

// Activations and weights of Qwen2.5 7B. The bytes are those of the numbers, read once, and codes.
void Bench::rounding_to_fp8() const {
    using namespace ops::gpu;
    const Queue queue{.on_gpu = device_.is_cuda()};
    for (const auto& [full_rows, full_width] : {std::pair{16384, 896},
                                                {8192, 3584},
                                                {8192, 18944},
                                                {8192, 37888},
                                                {3584, 3584},
                                                {37888, 3584},
                                                {3584, 18944}}) {
        const int64_t rows = scaled(full_rows);
        const int64_t width = scaled(full_width) / 16 * 16;
        const at::Tensor x = random({rows, width});
        const at::Tensor codes = at::empty({rows * width}, x.options().dtype(at::kByte));
        const at::Tensor factors =
            at::empty({std::max(rows, width)}, x.options().dtype(at::kFloat));
        const at::Tensor largest = at::zeros({width}, x.options().dtype(at::kInt));
        auto* const seen = static_cast<uint32_t*>(largest.data_ptr());
        const auto measure = [&](const char* what, const std::function<void()>& work) {
            print("rows", format_text("{} x {}", rows, width), what, seconds_of(work),
                  "gb_per_second", 3e-9 * static_cast<double>(rows * width));
        };
        measure("FP8, a scale for each row", [&] {
            quantize_rows(queue,
                          {NumberType::bf16, Fp8Type::e4m3, x.data_ptr(), codes.data_ptr<uint8_t>(),
                           factors.data_ptr<float>(), rows, width});
        });
        const Fp8Columns columns{
            NumberType::bf16,          Fp8Type::e4m3, x.data_ptr(), codes.data_ptr<uint8_t>(),
            factors.data_ptr<float>(), seen,          rows,         width};
        measure("FP8, a scale for each column", [&] { quantize_columns(queue, columns); });
        measure("FP8, turned, a scale for all", [&] { quantize_columns_alike(queue, columns); });
        measure("FP8, a scale for all", [&] {
            quantize_tensor(
                queue, {NumberType::bf16, Fp8Type::e4m3, x.data_ptr(), codes.data_ptr<uint8_t>(),
                        factors.data_ptr<float>(), seen, nullptr, nullptr, rows * width, 0});
        });
        measure("FP8, the largest of all", [&] {
            raise_maximum(queue, {NumberType::bf16, x.data_ptr(), seen, rows * width});
        });
    }
}

// A layer of a gated delta net, of which each stretch is a document.
void Bench::states() const {
    const int64_t tokens = scaled(16384);
    constexpr int64_t key_heads = 16;
    constexpr int64_t value_heads = 32;
    const int64_t dim = is_small_ ? 16 : 128;
    const int64_t columns = (2 * key_heads + value_heads) * dim;
    std::vector<ops::Stretch> stretches;
    for (int64_t begin = 0; begin < tokens; begin += 1000)
        stretches.push_back({begin, std::min<int64_t>(1000, tokens - begin)});
    const std::string shape =
        format_text("{} x {}, {} documents", tokens, columns, stretches.size());
    const double pass = 2e-9 * static_cast<double>(tokens * columns);
    const auto measure = [&](const char* what, double passes, const std::function<void()>& work) {
        print("states", shape, what, seconds_of(work), "gb_per_second", passes * pass);
    };
    const at::Tensor x = random({tokens, columns});
    const ops::CausalConv conv{random({columns, 1, 4}), stretches,
                               random({std::ssize(stretches), 3, columns})};
    measure("causal_conv", 2, [&] { ops::causal_conv(x, conv); });
    const at::Tensor dy = random({tokens, columns}, at::kFloat);
    const at::Tensor dx = random({tokens, columns}, at::kFloat);
    const at::Tensor d_weight = random({columns, 1, 4}, at::kFloat);
    measure("causal_conv_backward", 5,
            [&] { ops::causal_conv_backward(dy, x, conv, dx, d_weight); });
    const auto heads_of = [&](at::ScalarType type) {
        return ops::DeltaHeads{random({tokens, key_heads, dim}, type),
                               random({tokens, key_heads, dim}, type),
                               random({tokens, value_heads, dim}, type),
                               -0.1 * random({tokens, value_heads, 1}, at::kFloat).abs(),
                               random({tokens, value_heads}, at::kFloat).sigmoid()};
    };
    const ops::DeltaHeads heads = heads_of(at::kBFloat16);
    const ops::DeltaHeads gradients = heads_of(at::kFloat);
    const at::Tensor between = ops::make_between(heads, stretches);
    const at::Tensor d_out = random({tokens, value_heads, dim});
    measure("delta_rule", 1.5, [&] { ops::delta_rule(heads, stretches, {{}, {}, between}); });
    measure("delta_rule_backward", 4.5, [&] {
        ops::delta_rule_backward(heads, stretches, {{}, {}, between}, d_out, gradients);
    });
}

void Bench::rows() const {
    const int64_t tokens = scaled(16384);
    for (const int64_t full : {896, 3584, 4096}) {
        const int64_t width = scaled(full);
        const std::string shape = format_text("{} x {}", tokens, width);
        const at::Tensor x = random({tokens, width});
        const at::Tensor dx = random({tokens, width});
        const at::Tensor dy = random({tokens, width});
        const at::Tensor weight = random({width});
        const at::Tensor d_weight = random({width}, at::kFloat);
        const at::Tensor inverse = ops::rms_norm(x, weight, 1e-6).inverse_rms;
        const double row = 2e-9 * static_cast<double>(tokens * width);  // GB of one pass over x
        const auto measure = [&](const char* what, double passes,
                                 const std::function<void()>& work) {
            print("rows", shape, what, seconds_of(work), "gb_per_second", passes * row);
        };
        measure("rms_norm", 2, [&] { ops::rms_norm(x, weight, 1e-6); });
        measure("rms_norm_backward", 4,
                [&] { ops::rms_norm_backward(dy, x, inverse, weight, dx, d_weight); });
        const at::Tensor over = dy.clone();
        measure("rms_norm_backward, which writes the rows again", 5,
                [&] { ops::rms_norm_backward(over, x, inverse, weight, dx, d_weight, true); });
        measure("add_rms_norm", 4, [&] { ops::add_rms_norm(over, 0.0, x, weight, 1e-6); });
        const at::Tensor of_head = random({64});
        const ops::HeadRange heads{0, width / 64};
        const at::Tensor d_of_head = random({64}, at::kFloat);
        measure("head_norm", 3, [&] { ops::head_norm(over, heads, of_head, 1e-6); });
        const ops::HeadsBeforeNorm before = ops::head_norm(over, heads, of_head, 1e-6);
        measure("head_norm_backward", 3,
                [&] { ops::head_norm_backward(dx, heads, before, of_head, d_of_head); });
        measure("residual add", 3, [&] { dx.add_(dy); });
        const at::Tensor gate_up = random({tokens, 2 * width});
        measure("swiglu", 3, [&] { ops::swiglu(gate_up); });
        measure("swiglu_backward", 6, [&] { ops::swiglu_backward(dy, gate_up); });
        const ops::RopeTable table =
            ops::make_rope_table(at::arange(tokens, at::TensorOptions(device_).dtype(at::kLong)),
                                 at::rand({32}, at::TensorOptions(device_)), 1.0);
        measure("rope", 2, [&] { ops::rope(x, width / 64, table, ops::Turn::forward); });
        attention_rows(tokens, width, table);
        const at::Tensor ids =
            at::randint(1000, {tokens}, at::TensorOptions(device_).dtype(at::kLong));
        const at::Tensor d_table = random({1000, width}, at::kFloat);
        measure("embedding_backward", 1, [&] { ops::embedding_backward(dy, ids, d_table, -1); });
    }
    for (const int64_t full : {151936, 128256}) {
        const int64_t count = scaled(4096);
        const int64_t vocabulary = scaled(full);
        const at::Tensor logits = random({count, vocabulary});
        const ops::Targets targets{
            at::randint(vocabulary, {count}, at::TensorOptions(device_).dtype(at::kLong))};
        const at::Tensor stats =
            at::zeros({count, ops::stats_per_token}, at::TensorOptions(device_));
        print("rows", format_text("{} x {}", count, vocabulary), "cross_entropy",
              seconds_of([&] { ops::cross_entropy(logits, targets, 1.0, {}, stats); }),
              "gb_per_second", 4e-9 * static_cast<double>(count * vocabulary));
    }
    const int64_t weights = scaled(int64_t{1} << 28, 256);
    const at::Tensor flat = random({weights}, at::kFloat);
    const at::Tensor copy = at::zeros({weights}, flat.options().dtype(at::kBFloat16));
    const auto measure = [&](const char* what, double bytes, const std::function<void()>& work) {
        print("rows", concat(weights), what, seconds_of(work), "gb_per_second",
              1e-9 * bytes * static_cast<double>(weights));
    };
    measure("sum_of_squares", 4, [&] { ops::sum_of_squares(flat); });
    measure("cast", 6, [&] { ops::cast(copy, flat); });
    for (const auto type : {at::kFloat, at::kBFloat16}) {
        const double of_moments = 4 * static_cast<double>(c10::elementSize(type));
        const at::Tensor first = at::zeros({weights}, flat.options().dtype(type));
        const ops::UpdateBuffers buffers{
            flat, {first, at::zeros_like(first)}, at::zeros_like(flat), copy};
        const ops::AdamWRule rule({1e-5, 0, 1, 7}, 0.9, 0.999, 1e-8);
        measure(type == at::kFloat ? "adamw" : "adamw, moments in bf16", 8 + of_moments + 8 + 2,
                [&] { ops::update(buffers, rule); });
    }
}

void Bench::attention_of(const std::string& shape, const std::vector<int64_t>& starts,
                         int64_t tokens, const attention::HeadCounts& counts) const {
    const auto& [query_heads, key_heads, head_dim] = counts;
    const attention::Heads heads{random({tokens, query_heads, head_dim}),
                                 random({tokens, key_heads, head_dim}),
                                 random({tokens, key_heads, head_dim})};
    std::vector<attention::Tile> tiles;
    for (size_t i = 0; i < starts.size(); ++i) {
        const int64_t length = (i + 1 < starts.size() ? starts[i + 1] : tokens) - starts[i];
        tiles.push_back({starts[i], starts[i], length, length, ops::causal});
    }
    attention::Plan plan;
    plan.steps = {tiles};
    plan.num_tokens = tokens;
    plan.meets_once = true;
    const attention::LocalAttention local = attention::local_attention_of(heads.q);
    attention::Partial partial = attention::make_partial(heads, plan);
    const at::Tensor d_out = random(heads.q.sizes());
    const attention::HeadGradients gradients{at::empty_like(heads.q), at::empty_like(heads.k),
                                             at::empty_like(heads.v)};
    const std::string operators = join(
        [&] {
            const auto names =
                attention::operators_of(plan, at::kBFloat16, {head_dim, {}, key_heads}, device_);
            return std::vector<std::string>(names.begin(), names.end());
        }(),
        " and ");
    double pairs = 0;
    for (const attention::Tile& tile : tiles)
        pairs += static_cast<double>(tile.num_q) * static_cast<double>(tile.num_k + 1) / 2;
    const double teraflops = 4e-12 * pairs * static_cast<double>(query_heads * head_dim);
    const std::string what = format_text("{}, heads {}/{} x {}{}{}", shape, query_heads, key_heads,
                                         head_dim, operators.empty() ? "" : ", ", operators);
    using attention::Into;
    print("attention", what, "forward",
          seconds_of([&] { local.attend(heads, tiles, Into::fresh, partial); }), "tflops",
          teraflops);
    print("attention", what, "backward", seconds_of([&] {
              local.attend_backward(d_out, heads, partial, tiles, Into::fresh, gradients);
          }),
          "tflops", 2.5 * teraflops);
}

// A token less than a multiple of 64 takes FlashAttention-2 where the multiple takes cuDNN.
void Bench::attention() const {
    for (const attention::HeadCounts& heads :
         {attention::HeadCounts{14, 2, 64}, attention::HeadCounts{32, 8, 128}}) {
        for (const int64_t less : {0, 1}) {
            for (const int64_t full : {1024, 8192, 65536}) {
                const int64_t length = scaled(full, 64) - less;
                const int64_t count = std::max<int64_t>(1, scaled(16384, 64) / length);
                std::vector<int64_t> starts;
                for (int64_t i = 0; i < count; ++i) starts.push_back(i * length);
                attention_of(format_text("{} x {}", count, length), starts, count * length, heads);
            }
        }
        // Packed: one long document, and short ones behind it.
        const int64_t tokens = scaled(65536, 64);
        std::vector<int64_t> starts{0};
        for (int64_t start = tokens * 5 / 8; start < tokens;
             start += 1 + scaled(300, 64) + start % 401)
            starts.push_back(start);
        attention_of(format_text("{} packed, {} documents", tokens, starts.size()), starts, tokens,
                     heads);
    }
}

void Bench::copies() const {
    const int64_t bytes = scaled(int64_t{4} << 30, 256);
    const double gigabytes = 1e-9 * static_cast<double>(bytes);
    offload::HostOffloadStore store(device_);
    store.reserve(bytes);
    const Timer pinning;
    if (const auto failure = store.allocate()) throw Error(*failure);
    print("copies", human_bytes(static_cast<double>(bytes)), "allocate and pin", pinning.seconds(),
          "gb_per_second", gigabytes);
    const int64_t part = bytes / 4;
    const at::Tensor buffer = store.staging_buffer(part, at::kByte);
    buffer.zero_();
    const auto measure = [&](const char* what, const std::function<void()>& work) {
        print("copies", human_bytes(static_cast<double>(part)), what, seconds_of(work),
              "gb_per_second", gigabytes / 4);
    };
    measure("to the host", [&] { store.wait(store.write(buffer, part, 0)); });
    measure("to the device", [&] { store.wait(store.read(buffer, part, 0)); });
    const at::Tensor other = store.staging_buffer(part, at::kByte);
    measure("both at once, each way", [&] {
        const auto out = store.write(buffer, part, 0);
        store.wait(store.read(other, part, part));
        store.wait(out);
    });
    const at::Tensor copy = at::empty_like(buffer);
    print("copies", human_bytes(static_cast<double>(part)), "on the device, read and written",
          seconds_of([&] { copy.copy_(buffer); }), "gb_per_second", gigabytes / 2);
}

}  // namespace

int main(int argc, char** argv) {
    device::prepare_environment(Environment::of_this_process());
    const comm::MpiSession mpi;
    const c10::InferenceMode no_autograd;
    device::keep_host_memory();
    const char* const wish = std::getenv("RINGSHARD_TEST_DEVICE");
    const at::Device device(wish == nullptr ? "cuda:0" : wish);
    device::make_current(device);
    const Bench bench(device, argc > 1 && std::string_view(argv[1]) == "small");
    bench.copies();
    bench.products();
    bench.rows();
    if constexpr (RINGSHARD_HAS_CUDA) {
        bench.head_gradients();
        bench.rounding_to_fp8();
    }
    bench.states();
    bench.attention();
}
