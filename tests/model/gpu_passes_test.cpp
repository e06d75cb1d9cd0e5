// The work of the GPU path, counted where the host runs its kernels: the kernels that a block
// starts, the bytes that kernels of rows read and write, and the times that the host waits for the
// device. A kernel or a pass over memory that a change adds is seen here.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <unordered_set>

#include "block.hpp"
#include "gpu/host_accesses.hpp"
#include "mpi_test.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/rope_spec.hpp"

using namespace ringshard;
using namespace ringshard::model;

namespace {

struct Count {
    int64_t launches = 0;
    int64_t bytes = 0;  // read and written: of a kernel's, those of distinct places
};

// By names: kernels of src/ops/gpu, operators of LibTorch that compute or copy, products of
// matrices, and attention.
using Counts = std::map<std::string, Count>;

class Ledger {
public:
    void begin_kernel(const std::string& name) {
        end_kernel();
        kernel_ = name;
        counts[name].launches += 1;
    }
    void access(ops::gpu::HostAccess access, const void* place, size_t bytes) {
        constexpr size_t line = 2;  // a number of bf16, the smallest
        auto& lines = access == ops::gpu::HostAccess::read ? read_ : written_;
        const auto first = reinterpret_cast<uintptr_t>(place);
        for (uintptr_t at = first; at < first + bytes; at += line) lines.insert(at);
    }
    void end_kernel() {
        if (!kernel_.empty())
            counts[kernel_].bytes += 2 * static_cast<int64_t>(read_.size() + written_.size());
        read_.clear();
        written_.clear();
        kernel_.clear();
    }

    Counts counts;
    int64_t waits = 0;
    int64_t addends = 0;  // bytes that products read beside their factors

private:
    std::string kernel_;
    std::unordered_set<uintptr_t> read_;
    std::unordered_set<uintptr_t> written_;
};

Ledger* ledger = nullptr;  // of the work that is counted

// The operator that runs, and those around it.
struct Frame : at::ObserverContext {
    std::string name;
    std::vector<at::Tensor> in;
    bool is_counted = true;  // not a part of a product, or of attention
    bool has_parts = false;  // that are counted, and their bytes:
    int64_t part_bytes = 0;
    Frame* around = nullptr;
};
Frame* innermost = nullptr;

bool is_product(const std::string& name) {
    return name == "aten::mm" || name == "aten::addmm" || name == "aten::addmm_";
}

bool makes_no_pass(const std::string& name) {
    return name.starts_with("aten::empty") || name.starts_with("aten::resize") ||
           name == "aten::set_" || name == "aten::detach";
}

template <class Values>
std::vector<at::Tensor> tensors_in(const Values& values) {
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& value : values) {
        if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
        if (value.isTensorList())
            for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
    return tensors;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto frame = std::make_unique<Frame>();
    frame->name = function.name();
    frame->in = tensors_in(function.inputs());  // gone when it ends
    frame->around = innermost;
    frame->is_counted =
        innermost == nullptr || (innermost->is_counted && !is_product(innermost->name) &&
                                 innermost->name != "attention kernel");
    innermost = frame.get();
    return frame;
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

void end(const at::RecordFunction& function, at::ObserverContext* context) {
    auto& frame = static_cast<Frame&>(*context);
    innermost = frame.around;
    if (!frame.is_counted) return;
    if (frame.name == "aten::_local_scalar_dense" || frame.name == "aten::nonzero") ++ledger->waits;
    const std::vector<at::Tensor> out = tensors_in(function.outputs());
    const std::vector<at::Tensor>& in = frame.in;
    const bool is_view = !frame.name.ends_with('_') && !out.empty() && !in.empty() &&
                         out.front().is_alias_of(in.front());
    if (makes_no_pass(frame.name) || is_view || out.empty()) return;
    if (frame.name == "attention kernel") return;
    const bool overwrites = frame.name == "aten::copy_" || frame.name == "aten::fill_" ||
                            frame.name == "aten::zero_" || frame.name == "aten::index_copy_";
    int64_t accessed = 0;
    for (size_t i = overwrites ? 1 : 0; i < in.size(); ++i) accessed += bytes_of(in[i]);
    int64_t bytes = frame.part_bytes;
    // An operator is its parts if they read what it is given.
    if (!frame.has_parts || frame.part_bytes < accessed) {
        Count& count = ledger->counts[frame.name];
        count.launches += 1;
        if (frame.name == "aten::addmm" && in.front().dim() == 2)
            ledger->addends += bytes_of(in.front());
        if (!is_product(frame.name)) {
            for (const at::Tensor& tensor : out) accessed += bytes_of(tensor);
            count.bytes += accessed;
            bytes += accessed;
        }
    }
    if (innermost == nullptr) return;
    innermost->has_parts = true;
    innermost->part_bytes += bytes;
}

constexpr int64_t width = 896;
constexpr int64_t tokens = 128;

// A block of Qwen2.5-0.5B.
BlockSpec spec_of_block() {
    BlockSpec spec{.width = width, .norm = {.epsilon = 1e-6}};
    spec.attention.heads = {14, 2, 64};
    spec.attention.has_bias = true;
    spec.mlp.intermediate = 4864;
    return spec;
}

// Forward and backward, of two rows that are a document each.
Ledger work_of_block(config::ActivationPolicy policy) {
    const c10::InferenceMode no_autograd;
    const mesh::Mesh mesh(test::world(), {}, at::kCPU);
    const ops::Gemms gemms = ops::Gemms::open().value();
    const BlockSpec spec = spec_of_block();
    shard::UnitLayout layout("block");
    const Block block(layout, spec);
    const std::vector<shard::FlatUnit> units = layout.finish(1);
    const at::TensorOptions bf16(at::kBFloat16);
    const shard::UnitTensors weights(units.front(), 0.02 * at::randn({units.front().size()}, bf16));
    const shard::UnitTensors gradients(units.front(), at::zeros({units.front().size()}));

    const attention::SequencePartition partition(tokens, {0, tokens / 2}, 1, 1);
    std::vector<attention::Plan> plans{attention::make_plan(partition, 0)};
    attention::prepare_plans(plans, mesh.device());
    const Positions positions{{ops::make_rope_table(at::arange(tokens / 2).repeat({2}),
                                                    inverse_frequencies({}, 64), 1.0)}};
    const attention::SequenceAttention attention(spec.attention.heads, mesh.ring(), mesh.ulysses());
    const attention::SequenceDelta delta(mesh.ring(), mesh.ulysses());
    const BlockContext context{attention, delta, plans.front(), positions, gemms, policy, tokens};
    const at::Tensor input = at::randn({tokens, width}, bf16);
    const at::Tensor gradient = at::randn({tokens, width}, bf16);

    Ledger counted;
    ledger = &counted;
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true));
    Saved saved = block.begin(input);
    block.forward(context, weights, saved);
    block.backward(context, weights, gradients, gradient, std::move(saved));
    at::removeCallback(handle);
    counted.end_kernel();
    ledger = nullptr;
    return counted;
}

// Of tokens times width, in the type of the computation.
double passes(int64_t bytes) {
    constexpr int64_t bf16_bytes = 2;
    return static_cast<double>(bytes) / static_cast<double>(tokens * width * bf16_bytes);
}

}  // namespace

namespace ringshard::ops::gpu {

void note_host_launch(const char* kernel) {
    if (ledger != nullptr) ledger->begin_kernel(kernel);
}

void note_host_access(HostAccess access, const void* place, size_t bytes) {
    if (ledger != nullptr) ledger->access(access, place, bytes);
}

}  // namespace ringshard::ops::gpu

// Launches and passes, told by name where a test fails or --log_level=message asks for it.
std::pair<int64_t, double> sums_of(const Ledger& block) {
    int64_t launches = 0;
    int64_t bytes = 0;
    for (const auto& [name, count] : block.counts) {
        if (count.launches == 0) continue;
        launches += count.launches;
        bytes += count.bytes;
        BOOST_TEST_MESSAGE(name << ": " << count.launches << " launches, " << passes(count.bytes)
                                << " passes");
    }
    BOOST_TEST_MESSAGE("together " << launches << " launches, " << passes(bytes) << " passes, "
                                   << block.waits << " waits; products add "
                                   << passes(block.addends));
    return {launches, passes(bytes)};
}

// Before residuals and norms, copies around attention, RoPE and the bias's gradient shared kernels.
constexpr double passes_before = 82.8;
// With `attention` beside that: outputs of chunks copied, a norm, a sum and RoPE of queries and
// keys made again.
constexpr double passes_before_of_attention = passes_before + 2 + 2 + 3 + 2.29;

BOOST_AUTO_TEST_CASE(a_block_of_half_a_billion_makes_so_many_passes) {
    const Ledger block = work_of_block(config::ActivationPolicy::all);
    const auto [launches, passes_of_rows] = sums_of(block);
    BOOST_TEST(block.waits == 0);
    BOOST_TEST(launches <= 20);  // kernels and products
    BOOST_TEST(passes_of_rows <= 0.84 * passes_before);
    BOOST_TEST(passes(block.addends) <= 2);
}

BOOST_AUTO_TEST_CASE(a_block_that_makes_again_all_but_attention) {
    const Ledger block = work_of_block(config::ActivationPolicy::attention);
    const auto [launches, passes_of_rows] = sums_of(block);
    BOOST_TEST(block.waits == 0);
    BOOST_TEST(launches <= 26);
    BOOST_TEST(passes_of_rows <= 0.82 * passes_before_of_attention);
    BOOST_TEST(passes(block.addends) <= 3);
}

BOOST_AUTO_TEST_CASE(a_block_that_keeps_its_rows_makes_fewer) {
    const Ledger block = work_of_block(config::ActivationPolicy::everything);
    const auto [launches, passes_of_rows] = sums_of(block);
    BOOST_TEST(block.waits == 0);
    BOOST_TEST(launches <= 20);
    BOOST_TEST(passes_of_rows <= 0.75 * passes_before);
    BOOST_TEST(passes(block.addends) <= 2);
}
