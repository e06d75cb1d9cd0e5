#include "delta_by_row.hpp"

#include <ATen/ops/cat.h>

namespace ringshard::model {

using config::ActivationPolicy;

namespace {

std::string in_attention(const char* name) { return std::string("self_attn.") + name; }

ProjectionSpec::Layer layer(const char* name, int64_t out) { return {in_attention(name), out}; }

ProjectionSpec product(const BlockSpec& block, std::vector<ProjectionSpec::Layer> layers,
                       int64_t in) {
    return {.layers = std::move(layers), .in = in, .adapters = block.adapters};
}

ProjectionSpec in_product(const BlockSpec& block, const DeltaByRowSpec& spec) {
    const attention::DeltaSizes& sizes = spec.sizes;
    return product(block,
                   {layer("q_proj", sizes.keys()), layer("k_proj", sizes.keys()),
                    layer("v_proj", sizes.values()), layer("b_proj", sizes.betas()),
                    layer("f_a_proj", spec.rank), layer("g_a_proj", spec.rank)},
                   block.width);
}

GatedDelta::Form state_form(const attention::DeltaSizes& sizes, double epsilon) {
    GatedDelta::Form form = GatedDelta::of_heads("self_attn", sizes, epsilon);
    form.opening = ops::Opening::sigmoid;
    form.log_rate.shape = {1, 1, sizes.value_heads, 1};
    return form;
}

}  // namespace

DeltaByRow::DeltaByRow(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                       const DeltaByRowSpec& spec)
    : StateMixer(saved, spec.sizes),
      rank_(spec.rank),
      in_(unit, in_product(block, spec)),
      decays_(unit, product(block, {layer("f_b_proj", sizes_.decays())}, rank_)),
      gates_(unit, product(block, {layer("g_b_proj", sizes_.values())}, rank_)),
      state_(unit, state_form(sizes_, block.norm.epsilon), sizes_),
      out_(unit, product(block, {layer("o_proj", block.width)}, sizes_.values())),
      low_(saved.add(ActivationPolicy::all_but_gate_up)) {}

at::Tensor DeltaByRow::columns(const Pass& pass) const {
    return pass.saved[projected_].narrow(1, 0, sizes_.columns());
}

at::Tensor DeltaByRow::gates(const Pass& pass) const {
    return pass.saved[projected_].narrow(1, sizes_.columns(), sizes_.values());
}

void DeltaByRow::project(const Pass& pass, const at::Tensor& x) const {
    const ProjectionContext& products = pass.context.projections;
    const at::Tensor rows = in_.forward(products, pass.weights, x);
    const at::Tensor low = rows.narrow(1, plain(), 2 * rank_).contiguous();
    pass.saved[low_] = low;
    pass.saved[projected_] =
        at::cat({rows.narrow(1, 0, plain()),
                 decays_.forward(products, pass.weights, low_decays(low).contiguous()),
                 gates_.forward(products, pass.weights, low_gates(low).contiguous())},
                1);
}

void DeltaByRow::mix(const Pass& pass) const {
    read_states(pass, columns(pass), state_.weights(pass.weights));
}

at::Tensor DeltaByRow::mixed(const Pass& pass) const {
    return state_.gated(pass.weights, pass.saved[read_], gates(pass));
}

void DeltaByRow::backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const {
    const ProjectionContext& products = pass.context.projections;
    const at::Tensor d_gated =
        out_.backward(products, pass.weights, pass.gradients, dy, mixed(pass));
    dy.reset();
    const auto [d_read, d_gates] =
        state_.gated_backward(pass, d_gated, pass.saved[read_], gates(pass));
    const at::Tensor d_columns = columns_backward(pass, columns(pass), state_.weights(pass.weights),
                                                  state_.weights(pass.gradients), d_read);
    const at::Tensor& low = pass.saved[low_];
    const at::Tensor d_low_decays = decays_.backward(
        products, pass.weights, pass.gradients,
        d_columns.narrow(1, plain(), sizes_.decays()).contiguous(), low_decays(low).contiguous());
    const at::Tensor d_low_gates = gates_.backward(products, pass.weights, pass.gradients, d_gates,
                                                   low_gates(low).contiguous());
    input.backward(pass, in_,
                   at::cat({d_columns.narrow(1, 0, plain()), d_low_decays, d_low_gates}, 1));
}

void DeltaByRow::add_costs(StageCosts& costs, bool makes_output_again) const {
    const bool is_again = is_projected_again(costs.policy);
    decays_.add_products("decays", is_again, costs.products);
    gates_.add_products("gates", is_again, costs.products);
    StateMixer::add_costs(costs, makes_output_again);
}

}  // namespace ringshard::model
