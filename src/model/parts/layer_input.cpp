#include "layer_input.hpp"

#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

using config::ActivationPolicy;

void StreamRows::add_gradient(const BackwardPass& pass, const at::Tensor& dx) const {
    ops::add_into(dx, pass.gradient, pass.gradient);
}

NormedRows::NormedRows(std::shared_ptr<const Norm> norm, SavedLayout& slots,
                       const SavedSlot& source, ActivationPolicy keeps)
    : norm_(std::move(norm)),
      source_(source),
      normed_(slots.add(ActivationPolicy::everything)),
      inverse_rms_(slots.add(keeps)) {}

at::Tensor NormedRows::keep(const Pass& pass, ops::RmsNormed normed) const {
    pass.saved[inverse_rms_] = std::move(normed.inverse_rms);
    at::Tensor rows = in_type(pass.context.branch_type, normed.y);
    if (keeps_rows(pass.context.policy)) pass.saved[normed_] = rows;
    return rows;
}

at::Tensor NormedRows::forward(const Pass& pass) const {
    return keep(pass, norm_->forward(pass.weights, pass.saved[source_]));
}

at::Tensor NormedRows::again(const Pass& pass) const {
    if (has_rows(pass.saved)) return pass.saved[normed_];
    return in_type(pass.context.branch_type,
                   norm_->again(pass.weights, pass.saved[source_], pass.saved[inverse_rms_]));
}

void NormedRows::norm_backward(const BackwardPass& pass, const at::Tensor& dx,
                               bool makes_rows) const {
    norm_->backward(pass.weights, pass.gradients, dx, pass.saved[source_], pass.saved[inverse_rms_],
                    pass.gradient, makes_rows);
}

void NormedRows::add_gradient(const BackwardPass& pass, const at::Tensor& dx) const {
    norm_backward(pass, dx, false);
}

void NormedRows::add_costs(StageCosts& costs, bool is_made_again, RowsInBackward rows) const {
    norm_->add_costs(costs);
    if (is_made_again) norm_->add_costs_again(costs);
    if (rows == RowsInBackward::made_again_alone && !keeps_rows(costs.policy))
        add_costs_of_rows(costs);
}

void RowsMadeByBackward::add_costs_of_rows(StageCosts& costs) const {
    costs.add_rows("norms, backward", norm().width(), norm().backward_kernels());
}

void RowsMadeByBackward::backward(const BackwardPass& pass, const Projection& product,
                                  const at::Tensor& dy, BiasGradient of_bias) const {
    if (has_rows(pass.saved)) return NormedRows::backward(pass, product, dy, of_bias);
    const ProjectionContext& context = pass.context.projections;
    const at::Tensor dx = product.backward_input(context, pass.weights, dy);
    norm_backward(pass, dx, true);
    const at::Tensor& rows = dx;  // written over
    product.add_gradients(context, pass.weights, pass.gradients, dy, rows, of_bias);
}

at::Tensor SumNormed::forward(const Pass& pass) const {
    if (!pass.saved.has(unadded_)) return normed_->forward(pass);
    return normed_->keep(pass, normed_->norm().add_forward(pass.weights, pass.saved[unadded_],
                                                           factor_, pass.saved[stream_]));
}

void SumNormed::add_costs(StageCosts& costs, bool is_made_again, RowsInBackward rows) const {
    normed_->add_costs(costs, is_made_again, rows);
    const double of_sum = 2 * normed_->norm().width();  // it reads a result and writes the sum
    costs.add_rows("norms, forward", of_sum, normed_->norm().kernels());
    if (is_made_again && !normed_->source().is_kept(costs.policy))
        costs.add_rows("norms, again", of_sum, normed_->norm().kernels());
}

std::vector<SavedSlot> SumNormed::stream() const {
    std::vector<SavedSlot> slots = normed_->stream();
    slots.insert(slots.end(), {unadded_, stream_});
    return slots;
}

}  // namespace ringshard::model
