// The work of the stream that computes, for the model of streams: the operators of LibTorch by its
// observers, and those of ops by a backend that notes their tensors and calls the CPU's.
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "backends.hpp"
#include "observed_operations.hpp"
#include "stream_model.hpp"

namespace ringshard::test {

namespace {

void launch(const char* what, std::vector<Touch> touches) {
    StreamModel* const model = StreamModel::current();
    if (model != nullptr && !touches.empty())
        model->launch(model->stream(), {what, std::move(touches)});
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) return {value.toTensor()};
    if (value.isTensorList()) return value.toTensorVector();
    return {};
}

struct Inputs : at::ObserverContext {
    std::vector<Touch> touches;
};

bool is_view(const c10::FunctionSchema& schema) {
    return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
        return result.alias_info() != nullptr && !result.alias_info()->isWrite();
    });
}

// The schema of an operator says which of its arguments it writes.
std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto inputs = std::make_unique<Inputs>();
    const auto schema = function.operator_schema();
    if (!schema || is_view(*schema)) return inputs;
    const auto arguments = function.inputs();
    for (size_t i = 0; i < arguments.size() && i < schema->arguments().size(); ++i) {
        const c10::AliasInfo* const alias = schema->arguments()[i].alias_info();
        for (const at::Tensor& tensor : tensors_in(arguments[i]))
            inputs->touches.push_back(touch(tensor, alias != nullptr && alias->isWrite()));
    }
    return inputs;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
    std::vector<Touch>& touches = static_cast<Inputs&>(*context).touches;
    const auto schema = function.operator_schema();
    const std::string name = function.name();
    if (schema && !is_view(*schema) && !name.starts_with("aten::empty"))
        for (const c10::IValue& result : function.outputs())
            for (const at::Tensor& tensor : tensors_in(result))
                touches.push_back(touch(tensor, true));
    launch(function.name(), std::move(touches));
}

// The tensors of an argument of ops.
using Tensors = std::vector<at::Tensor>;
template <class Other>
void add(Tensors&, const Other&) {}
void add(Tensors& all, const at::Tensor& tensor) {
    if (tensor.defined()) all.push_back(tensor);
}
void add(Tensors& all, const ops::NormWeight& weight) { add(all, weight.values); }
void add(Tensors& all, const ops::Targets& targets) {
    add(all, targets.tokens);
    add(all, targets.weights);
}
void add(Tensors& all, const ops::RopeTable& table) {
    add(all, table.cosine);
    add(all, table.sine);
}
void add(Tensors& all, const ops::HeadsBeforeNorm& before) {
    add(all, before.x);
    add(all, before.inverse_rms);
}
void add(Tensors& all, const ops::SeenKeys& seen) {
    add(all, seen.out);
    add(all, seen.lse);
}
void add(Tensors& all, const ops::UpdateBuffers& buffers) {
    for (const at::Tensor& tensor : {buffers.weights, buffers.gradient, buffers.copy})
        add(all, tensor);
    for (const at::Tensor& moment : buffers.moments) add(all, moment);
}

size_t content_of(const at::Tensor& tensor) {
    const Touch all = touch(tensor, false);
    return std::hash<std::string_view>()({static_cast<const char*>(all.first), all.bytes});
}

// An operation reads its tensors, and writes the first one, if it returns nothing, and those whose
// bytes have changed.
template <auto operation>
struct Observed;
template <class Result, class... Arguments, Result (*operation)(Arguments...)>
struct Observed<operation> {
    static Result run(Arguments... arguments) {
        Tensors tensors;
        (add(tensors, arguments), ...);
        std::vector<size_t> before;
        for (const at::Tensor& tensor : tensors) before.push_back(content_of(tensor));
        const auto note = [&] {
            std::vector<Touch> touches;
            for (size_t i = 0; i < tensors.size(); ++i)
                touches.push_back(touch(tensors[i], (std::is_void_v<Result> && i == 0) ||
                                                        content_of(tensors[i]) != before[i]));
            return touches;
        };
        if constexpr (std::is_void_v<Result>) {
            operation(std::forward<Arguments>(arguments)...);
            launch("an operation", note());
        } else {
            Result result = operation(std::forward<Arguments>(arguments)...);
            std::vector<Touch> touches = note();
            Tensors made;
            add(made, result);
            for (const at::Tensor& tensor : made) touches.push_back(touch(tensor, true));
            launch("an operation", std::move(touches));
            return result;
        }
    }
};

}  // namespace

Observing::Observing()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true))) {}

Observing::~Observing() { at::removeCallback(handle_); }

}  // namespace ringshard::test

namespace ringshard::ops {

#define RINGSHARD_OBSERVED(operation) test::Observed<&cpu::operation>::run,

const Backend& backend_of(const at::Tensor&) {
    static constexpr Backend observed{RINGSHARD_FOR_OPERATIONS(RINGSHARD_OBSERVED)};
    return observed;
}

}  // namespace ringshard::ops
