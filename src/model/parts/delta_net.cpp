#include "delta_net.hpp"

#include <ATen/ops/cat.h>

namespace ringshard::model {

using attention::DeltaSizes;

namespace {

ProjectionSpec in_projection(const BlockSpec& block, const DeltaNetSpec& net) {
    const auto& [sizes, is_grouped] = net;
    const int64_t heads = sizes.value_heads;
    ProjectionSpec spec{.layers = {{"linear_attn.in_proj_qkv", sizes.convolved()},
                                   {"linear_attn.in_proj_b", heads},
                                   {"linear_attn.in_proj_a", heads},
                                   {"linear_attn.in_proj_z", sizes.values()}},
                        .in = block.width,
                        .adapters = block.adapters,
                        .variants = block.variants};
    if (is_grouped)
        spec.layers = {{"linear_attn.in_proj_qkvz", sizes.convolved() + sizes.values()},
                       {"linear_attn.in_proj_ba", 2 * heads}};
    return spec;
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

GatedDelta::Names names_in_files(const DeltaSizes& sizes) {
    return {.conv = {{"linear_attn.conv1d.weight", {sizes.convolved(), 1, taps_of_delta}}},
            .bias = {"linear_attn.dt_bias", {sizes.value_heads}},
            .log_rate = {"linear_attn.A_log", {sizes.value_heads}},
            .initial_bias = shard::InitialValues::ones,
            .norm = "linear_attn.norm.weight"};
}

}  // namespace

DeltaNet::DeltaNet(shard::UnitLayout& unit, SavedLayout& saved, const BlockSpec& block,
                   const DeltaNetSpec& spec)
    : StateMixer(saved, spec.sizes),
      is_grouped_(spec.is_grouped),
      in_(unit, in_projection(block, spec)),
      state_(unit, names_in_files(sizes_), sizes_, block.norm.epsilon, ops::Opening::silu),
      out_(unit, {.layers = {{"linear_attn.out_proj", block.width}},
                  .in = sizes_.values(),
                  .adapters = block.adapters,
                  .variants = block.variants}) {}

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
