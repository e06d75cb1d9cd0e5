#include "gpu_ledger.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

#include "ringshard/ops/device_copies.hpp"

namespace ringshard::test {

namespace {

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

// Nothing inside is a pass of its own.
bool is_whole(const std::string& name) {
    return is_product(name) || name == "attention kernel" || name == ops::span_to_device ||
           name == ops::span_to_host;
}

bool copies_anew(const std::string& name) {
    return name == "aten::clone" || name == "aten::_to_copy";
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
        innermost == nullptr || (innermost->is_counted && !is_whole(innermost->name));
    innermost = frame.get();
    return frame;
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

void end(const at::RecordFunction& function, at::ObserverContext* context) {
    auto& frame = static_cast<Frame&>(*context);
    innermost = frame.around;
    if (!frame.is_counted) return;
    if (frame.name == "aten::_local_scalar_dense" || frame.name == "aten::nonzero") ++ledger->waits;
    if (frame.name == ops::span_to_device) ++ledger->to_device;
    if (frame.name == ops::span_to_host) ++ledger->to_host;
    if (copies_anew(frame.name) && !frame.in.empty() && frame.in.front().numel() > 1 &&
        frame.in.front().scalar_type() == at::kLong)
        ++ledger->other_copies;
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

}  // namespace

Counting::Counting(Ledger& counted)
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true))) {
    ledger = &counted;
}

Counting::~Counting() {
    at::removeCallback(handle_);
    ledger->end_kernel();
    ledger = nullptr;
}

}  // namespace ringshard::test

namespace ringshard::ops::gpu {

using test::ledger;

void note_host_launch(const char* kernel) {
    if (ledger != nullptr) ledger->begin_kernel(kernel);
}

void note_host_access(HostAccess access, const void* place, size_t bytes) {
    if (ledger != nullptr) ledger->access(access, place, bytes);
}

}  // namespace ringshard::ops::gpu
