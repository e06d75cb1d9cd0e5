#include "delta_net.hpp"

#include <ATen/ops/cat.h>

namespace ringshard::model {

using attention::DeltaSizes;

namespace {

std::vector<ProjectionSpec::Layer> in_layers(const DeltaNetSpec& net) {
    const DeltaSizes& sizes = net.sizes;
    const int64_t heads = sizes.value_heads;
    const auto layer = [&](const char* name, int64_t out) {
        return ProjectionSpec::Layer{net.module + name, out};
    };
    switch (net.layers) {
        case DeltaLayers::apart:
            return {layer(".in_proj_qkv", sizes.convolved()), layer(".in_proj_b", heads),
                    layer(".in_proj_a", heads), layer(".in_proj_z", sizes.values())};
        case DeltaLayers::grouped:
            return {layer(".in_proj_qkvz", sizes.convolved() + sizes.values()),
                    layer(".in_proj_ba", 2 * heads)};
        case DeltaLayers::of_heads: break;
    }
    return {layer(".q_proj", sizes.keys()),
            layer(".k_proj", sizes.keys()),
            layer(".v_proj", sizes.values()),
            layer(".b_proj", sizes.betas()),
            layer(net.sizes.rule == ops::StateRule::delta_by_row ? ".f_proj" : ".a_proj",
                  sizes.decays()),
            layer(".g_proj", sizes.values())};
}

GatedDelta::Form state_of(const DeltaNetSpec& net, double epsilon) {
    const DeltaSizes& sizes = net.sizes;
    GatedDelta::Form form = GatedDelta::of_heads(net.module, sizes, epsilon);
    if (net.norm_epsilon > 0) form.epsilon = net.norm_epsilon;
    form.opening = net.opening;
    form.least_log_decay = net.least_log_decay;
    form.beta_scale = net.beta_scale;
    if (net.layers == DeltaLayers::of_heads) return form;
    form.conv = {{net.module + ".conv1d.weight", {sizes.convolved(), 1, taps_of_delta}}};
    form.initial_bias = shard::InitialValues::ones;
    form.norm = net.module + ".norm.weight";
    return form;
}

// The columns of a row: queries, keys, values, b (beta before its sigmoid), a (for decay), gates.
std::vector<int64_t> widths(const DeltaSizes& sizes) {
    return {sizes.keys(),      sizes.keys(),      sizes.values(),
            sizes.value_heads, sizes.value_heads, sizes.values()};
}
// Returns the widths for one key head, in the order of grouped projections: queries, keys, values,
// gates; b, a.
std::vector<int64_t> group_widths(const DeltaSizes& sizes) {
    const int64_t repeats = sizes.value_heads / sizes.key_heads;
    const int64_t values = repeats * sizes.value_dim;
    return {sizes.key_dim, sizes.key_dim, values, values};
}

// Rows of grouped projections, as rows of parts.
at::Tensor ungroup(const at::Tensor& rows, const DeltaSizes& sizes) {
    const int64_t first = sizes.convolved() + sizes.values();
    const auto by_head = [&](int64_t begin, int64_t width) {
        return rows.narrow(1, begin, width).unflatten(1, {sizes.key_heads, -1});
    };
    const auto qkvz = by_head(0, first).split_with_sizes(group_widths(sizes), 2);
    const auto ba = by_head(first, 2 * sizes.value_heads).chunk(2, 2);
    const auto flat = [](const at::Tensor& x) { return x.flatten(1); };
    return at::cat(
        {flat(qkvz[0]), flat(qkvz[1]), flat(qkvz[2]), flat(ba[0]), flat(ba[1]), flat(qkvz[3])}, 1);
}

// Back.
at::Tensor group(const at::Tensor& rows, const DeltaSizes& sizes) {
    const auto parts = rows.split_with_sizes(widths(sizes), 1);
    const auto by_head = [&](size_t part) {
        return parts[part].unflatten(1, {sizes.key_heads, -1});
    };
    return at::cat({at::cat({by_head(0), by_head(1), by_head(2), by_head(5)}, 2).flatten(1),
                    at::cat({by_head(3), by_head(4)}, 2).flatten(1)},
                   1);
}

}  // namespace

DeltaNet::DeltaNet(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                   const DeltaNetSpec& spec)
    : StateMixer(saved, spec.sizes),
      is_grouped_(spec.layers == DeltaLayers::grouped),
      in_(unit, {.layers = in_layers(spec), .in = block.width, .adapters = block.adapters}),
      state_(unit, state_of(spec, block.norm.epsilon), sizes_),
      out_(unit, {.layers = {{spec.out, block.width}},
                  .in = sizes_.values(),
                  .adapters = block.adapters}) {}

at::Tensor DeltaNet::columns(const at::Tensor& rows) const {
    return rows.narrow(1, 0, sizes_.columns());
}

at::Tensor DeltaNet::gates(const at::Tensor& rows) const {
    return rows.narrow(1, sizes_.columns(), sizes_.values());
}

void DeltaNet::project(const Pass& pass, const at::Tensor& x) const {
    const at::Tensor rows = in_.forward(pass.context.projections, pass.weights, x);
    pass.saved[projected_] = is_grouped_ ? ungroup(rows, sizes_) : rows;
}

void DeltaNet::mix(const Pass& pass) const {
    read_states(pass, columns(pass.saved[projected_]), state_.weights(pass.weights));
}

at::Tensor DeltaNet::mixed(const Pass& pass) const {
    return state_.gated(pass.weights, pass.saved[read_], gates(pass.saved[projected_]));
}

at::Tensor DeltaNet::rows_gradient(const BackwardPass& pass, at::Tensor dy) const {
    const at::Tensor& rows = pass.saved[projected_];
    const at::Tensor d_gated =
        out_.backward(pass.context.projections, pass.weights, pass.gradients, dy, mixed(pass));
    dy.reset();
    const auto [d_read, d_gates] =
        state_.gated_backward(pass, d_gated, pass.saved[read_], gates(rows));
    const at::Tensor d_columns = columns_backward(pass, columns(rows), state_.weights(pass.weights),
                                                  state_.weights(pass.gradients), d_read);
    at::Tensor d_rows = at::cat({d_columns, d_gates}, 1);
    return is_grouped_ ? group(d_rows, sizes_) : d_rows;
}

void DeltaNet::backward(const BackwardPass& pass, at::Tensor dy, const LayerInput& input) const {
    input.backward(pass, in_, rows_gradient(pass, std::move(dy)));
}

}  // namespace ringshard::model
