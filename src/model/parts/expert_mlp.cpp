#include "expert_mlp.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <numeric>

#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"
#include "ringshard/ops/activation.hpp"
#include "ringshard/ops/clamped_swiglu.hpp"
#include "ringshard/ops/grouped_linear.hpp"

namespace ringshard::model {

namespace {

// Matrices of all experts, [out, in]: one tensor for each, in the order of the experts, or one for
// all of them.
shard::ParameterGroup tensors_of(const ExpertsSpec& spec, const std::vector<std::string>& layers,
                                 const std::vector<int64_t>& shape) {
    shard::ParameterGroup group;
    const int64_t out = shape[0] * std::ssize(layers);
    const std::string stacked = format_text("{}.{}", spec.experts, layers.back());
    group.is_divided = true;
    group.is_overwritten = true;
    if (spec.tensors == ExpertTensors::stacked)
        group.tensors = {{stacked, {spec.count, out, shape[1]}}};
    if (spec.has_transposes()) group.tensors = {{stacked, {spec.count, shape[1], out}}};
    if (!group.tensors.empty()) return group;
    for (int64_t expert = 0; expert < spec.count; ++expert)
        for (const std::string& layer : layers)
            group.tensors.push_back(
                {format_text("{}.{}.{}.weight", spec.experts, expert, layer), shape});
    return group;
}

std::vector<std::string> inner_layers(const ExpertsSpec& spec) {
    if (!spec.is_gated) return {spec.up};
    return {spec.gate, spec.up};
}

// Returns what each learner adds to a matrix of the experts; nothing in place of those that leave
// the matrix as it is.
std::vector<std::optional<ExpertAdapter>> adapters_of(shard::UnitLayout& unit,
                                                      const BlockSpec& block, const char* parameter,
                                                      const std::vector<int64_t>& shape) {
    std::vector<std::optional<ExpertAdapter>> adapters(block.adapters.size());
    for (size_t number = 0; number < adapters.size(); ++number)
        if (block.adapters[number].layers.contains(parameter))
            adapters[number].emplace(unit, block.adapters[number], number, parameter,
                                     block.experts()->count, shape);
    return adapters;
}

bool adapts_experts(const NamedAdapter& adapter) {
    return adapter.layers.contains(experts_gate_up) || adapter.layers.contains(experts_down);
}

// In how many equal slices experts in four bits become numbers.
int64_t slices_to_dequantise(int64_t experts, int64_t weights_of_one, int64_t most_weights) {
    int64_t slices = 1;
    while (slices < experts &&
           (experts % slices != 0 || experts / slices * weights_of_one > most_weights))
        ++slices;
    return slices;
}

// Returns the matrices as the files have them: [count, out, in], or [count, in, out]. `rows`: of
// the matrix of one expert.
at::Tensor by_expert(const at::Tensor& matrices, int64_t rows) {
    if (!matrices.defined() || matrices.dim() == 3) return matrices;  // undefined: frozen
    return matrices.view({matrices.size(0) / rows, rows, matrices.size(1)});
}

std::optional<shard::ParameterId> bias_of(shard::UnitLayout& unit, const ExpertsSpec& spec,
                                          const std::string& layer, int64_t width) {
    if (!spec.has_bias()) return std::nullopt;
    return unit.add(
        {.tensors = {{format_text("{}.{}_bias", spec.experts, layer), {spec.count, width}}},
         .initial = shard::InitialValues::zeros,
         .update = shard::UpdateKind::at_own_rate});
}

// Rows of bf16 are copied to fp32 in either case by a sum on the CPU; plans count this copy.
at::Tensor sums_of_rows(const at::Tensor& rows) { return rows.to(at::kFloat).sum(1); }

// Biases of the experts that have these rows, as a view.
at::Tensor of_these(const ExpertMlp::Rows& rows, const at::Tensor& of_all) {
    if (!of_all.defined()) return of_all;  // frozen
    return of_all.narrow(0, rows.first, std::ssize(rows.counts));
}

ExpertAdapter::Rows adapted(const ExpertMlp::Rows& rows) {
    return {rows.context.gemms, rows.weights, rows.counts, rows.first};
}

}  // namespace

ExpertMlp::ExpertMlp(shard::UnitLayout& unit, const BlockSpec& block, const ExpertsSpec& spec)
    : spec_(spec),
      width_(block.width),
      gate_up_{unit.add(tensors_of(spec_, inner_layers(spec_), {spec_.intermediate, width_})),
               spec_.inner_width(), width_},
      down_{unit.add(tensors_of(spec_, {spec_.down}, {width_, spec_.intermediate})), width_,
            spec_.intermediate},
      gate_up_bias_(bias_of(unit, spec_, spec_.up, spec_.inner_width())),
      down_bias_(bias_of(unit, spec_, spec_.down, width_)),
      gate_up_adapters_(adapters_of(unit, block, experts_gate_up, {spec_.inner_width(), width_})),
      down_adapters_(adapters_of(unit, block, experts_down, {width_, spec_.intermediate})),
      num_adapters_(std::ranges::any_of(block.adapters, adapts_experts) ? block.adapters.size()
                                                                        : 0) {}

std::vector<int64_t> ExpertMlp::tokens_by_adapter(const ProjectionContext& context,
                                                  int64_t tokens) const {
    const std::vector<int64_t>& bounds = context.rows.bounds;
    if (num_adapters_ == 0 || bounds.empty()) return {tokens};
    std::vector<int64_t> counts;
    for (size_t number = 0; number + 1 < num_adapters_; ++number)
        counts.push_back(bounds.at(number + 1) - bounds.at(number));
    counts.push_back(tokens - bounds.at(num_adapters_ - 1));  // with the fillers
    return counts;
}

const ExpertAdapter* ExpertMlp::adapter_of(const Rows& rows, const Adapters& adapters) const {
    const bool is_of_model = num_adapters_ > 1 && rows.context.rows.bounds.empty();
    if (num_adapters_ == 0 || is_of_model) return nullptr;
    const std::optional<ExpertAdapter>& adapter = adapters.at(rows.adapter);
    return adapter ? &*adapter : nullptr;
}

at::Tensor ExpertMlp::weights_of(const shard::UnitTensors& weights, const Matrices& matrices,
                                 const shard::FlatUnit::Slice& slice) const {
    const at::Tensor of_slice = by_expert(weights.slice(matrices.id, slice), matrices.out);
    return spec_.has_transposes() ? of_slice.transpose(1, 2) : of_slice;
}

template <class Multiply>
at::Tensor ExpertMlp::by_slices(const Rows& rows, const Matrices& matrices, const at::Tensor& x,
                                int64_t columns, Multiply multiply) const {
    const int64_t experts = std::ssize(rows.counts);
    const int64_t slices = rows.weights.is_coded(matrices.id)
                               ? slices_to_dequantise(experts, matrices.out * matrices.in,
                                                      rows.context.most_dequantised)
                               : 1;
    if (slices == 1) return multiply(x, weights_of(rows.weights, matrices, {}), rows.counts);
    const at::Tensor y = at::empty({x.size(0), columns}, x.options());
    auto first = rows.counts.begin();
    int64_t begin = 0;
    for (int64_t slice = 0; slice < slices; ++slice, first += experts / slices) {
        const std::vector<int64_t> counts(first, first + experts / slices);
        const int64_t count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        if (count == 0) continue;
        y.narrow(0, begin, count)
            .copy_(multiply(x.narrow(0, begin, count),
                            weights_of(rows.weights, matrices, {slice, slices}), counts));
        begin += count;
    }
    return y;
}

at::Tensor ExpertMlp::forward(const Rows& rows, const Matrices& matrices,
                              const at::Tensor& x) const {
    return by_slices(rows, matrices, x, matrices.out,
                     [&](const at::Tensor& of_slice, const at::Tensor& weights,
                         const std::vector<int64_t>& counts) {
                         return ops::grouped_linear(rows.context.gemms, of_slice, weights, counts);
                     });
}

at::Tensor ExpertMlp::backward_input(const Rows& rows, const Matrices& matrices,
                                     const at::Tensor& dy) const {
    return by_slices(rows, matrices, dy, matrices.in,
                     [&](const at::Tensor& of_slice, const at::Tensor& weights,
                         const std::vector<int64_t>& counts) {
                         return ops::grouped_linear_backward_input(rows.context.gemms, of_slice,
                                                                   weights, counts);
                     });
}

void ExpertMlp::add_gradient(const Rows& rows, const shard::UnitTensors& gradients,
                             const Matrices& matrices, const at::Tensor& dy,
                             const at::Tensor& x) const {
    const ops::Gemms& gemms = rows.context.gemms;
    const auto [numbers, begins] = gradients.sum(matrices.id);
    const at::Tensor sums = by_expert(numbers, matrices.out);
    if (spec_.has_transposes())
        ops::add_grouped_weight_gradient(gemms, sums, x, dy, rows.counts, begins);
    else
        ops::add_grouped_weight_gradient(gemms, sums, dy, x, rows.counts, begins);
}

at::Tensor ExpertMlp::activated(const at::Tensor& gate_up) const {
    if (spec_.tensors == ExpertTensors::turned)
        return ops::clamped_swiglu(gate_up, {spec_.clamped.alpha, spec_.clamped.limit});
    return ops::activate(spec_.activation, spec_.is_gated, gate_up);
}

void ExpertMlp::activated_backward(const at::Tensor& d_product, const at::Tensor& gate_up) const {
    if (spec_.tensors == ExpertTensors::turned)
        ops::clamped_swiglu_backward(d_product, gate_up,
                                     {spec_.clamped.alpha, spec_.clamped.limit});
    else
        ops::activate_backward(spec_.activation, spec_.is_gated, d_product, gate_up);
}

at::Tensor ExpertMlp::inner(const Rows& rows, const at::Tensor& x) const {
    at::Tensor gate_up = forward(rows, gate_up_, x);
    if (gate_up_bias_)
        ops::add_group_biases(gate_up, of_these(rows, rows.weights[*gate_up_bias_]), {},
                              rows.counts);
    if (const ExpertAdapter* const adapter = adapter_of(rows, gate_up_adapters_))
        adapter->forward(adapted(rows), x, gate_up);
    return gate_up;
}

at::Tensor ExpertMlp::output(const Rows& rows, const at::Tensor& gate_up,
                             const at::Tensor& factors) const {
    const at::Tensor product = activated(gate_up).mul_(factors);
    at::Tensor y = forward(rows, down_, product);
    if (down_bias_)
        ops::add_group_biases(y, of_these(rows, rows.weights[*down_bias_]), factors, rows.counts);
    if (const ExpertAdapter* const adapter = adapter_of(rows, down_adapters_))
        adapter->forward(adapted(rows), product, y);
    return y;
}

// With u = dy w_down, the gradient of a row's factor is u . product, and that of its product is
// factor * u.
at::Tensor ExpertMlp::backward_output(const Rows& rows, const shard::UnitTensors& gradients,
                                      const at::Tensor& dy, const at::Tensor& factors,
                                      const at::Tensor& gate_up) const {
    const at::Tensor d_product = backward_input(rows, down_, dy);
    const ExpertAdapter* const adapter = adapter_of(rows, down_adapters_);
    at::Tensor d_inner;
    if (adapter != nullptr) d_inner = adapter->backward_input(adapted(rows), dy, d_product);
    at::Tensor d_factors = sums_of_rows(activated(gate_up).mul_(d_product));
    if (down_bias_) {
        const at::Tensor of_bias = at::zeros_like(dy);
        ops::add_group_biases(of_bias, of_these(rows, rows.weights[*down_bias_]), {}, rows.counts);
        d_factors.add_(of_bias.mul_(dy).sum(1, false, at::kFloat));
        ops::add_group_bias_gradient(of_these(rows, gradients[*down_bias_]), dy, factors,
                                     rows.counts);
    }
    d_product.mul_(factors);
    activated_backward(d_product, gate_up);
    const at::Tensor& product = d_product;  // written over
    product.mul_(factors);
    add_gradient(rows, gradients, down_, dy, product);
    if (adapter != nullptr) adapter->add_gradients(adapted(rows), gradients, dy, d_inner, product);
    return d_factors;
}

ExpertMlp::InputGradient ExpertMlp::backward_inner(const Rows& rows,
                                                   const at::Tensor& d_gate_up) const {
    InputGradient made{backward_input(rows, gate_up_, d_gate_up)};
    if (const ExpertAdapter* const adapter = adapter_of(rows, gate_up_adapters_))
        made.d_inner = adapter->backward_input(adapted(rows), d_gate_up, made.dx);
    return made;
}

void ExpertMlp::add_inner_gradients(const Rows& rows, const shard::UnitTensors& gradients,
                                    const at::Tensor& d_gate_up, const at::Tensor& d_inner,
                                    const at::Tensor& x) const {
    add_gradient(rows, gradients, gate_up_, d_gate_up, x);
    if (gate_up_bias_)
        ops::add_group_bias_gradient(of_these(rows, gradients[*gate_up_bias_]), d_gate_up, {},
                                     rows.counts);
    if (const ExpertAdapter* const adapter = adapter_of(rows, gate_up_adapters_))
        adapter->add_gradients(adapted(rows), gradients, d_gate_up, d_inner, x);
}

void ExpertMlp::add_products(const MadeAgain& again, std::vector<ProductUse>& products) const {
    const auto add = [&](const char* name, const WeightUse& use, bool is_made_again,
                         const Adapters& adapters) {
        const double of_row =
            2 * static_cast<double>(use.shape.out) * static_cast<double>(use.shape.in);
        products.push_back({name, use.rows_per_token * of_row, is_made_again, use});
        double of_adapter = 0;  // the largest
        for (const auto& adapter : adapters)
            if (adapter) of_adapter = std::max(of_adapter, adapter->operations());
        if (of_adapter > 0)
            products.push_back({"adapters", use.rows_per_token * of_adapter, is_made_again});
    };
    const std::vector<WeightUse> both = weights();
    add("experts.gate_up", both[0], again.inner, gate_up_adapters_);
    add("experts.down", both[1], again.outer, down_adapters_);
}

std::vector<WeightUse> ExpertMlp::weights() const {
    const auto rows = static_cast<double>(spec_.per_token);
    return {{{gate_up_.out, gate_up_.in}, gate_up_.id, rows},
            {{down_.out, down_.in}, down_.id, rows}};
}

}  // namespace ringshard::model
