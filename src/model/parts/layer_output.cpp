#include "layer_output.hpp"

#include <ATen/ops/zeros_like.h>

#include "ringshard/ops/linear.hpp"

namespace ringshard::model {

at::Tensor norm_gradient(const Norm& norm, const BackwardPass& pass, const at::Tensor& dy,
                         const at::Tensor& x) {
    at::Tensor dx = at::zeros_like(x);
    norm.backward(pass.weights, pass.gradients, dy, x, norm.forward(pass.weights, x).inverse_rms,
                  dx);
    return dx;
}

void NormedOutput::make_rows(const Pass& pass, at::Tensor rows) const {
    pass.saved[rows_] = Output::forward(pass, std::move(rows));
}

at::Tensor NormedOutput::forward(const Pass& pass, at::Tensor rows) const {
    make_rows(pass, std::move(rows));
    return norm_->forward(pass.weights, pass.saved[rows_]).y;
}

at::Tensor NormedOutput::backward(const BackwardPass& pass, const at::Tensor& dy) const {
    return norm_gradient(*norm_, pass, dy, pass.saved[rows_]);
}

void NormedOutput::add_costs(StageCosts& costs, bool is_made_again) const {
    norm_->add_costs(costs);
    norm_->add_costs_again(costs);  // of the inverse root mean squares
    if (is_made_again) norm_->add_costs_again(costs);
}

at::Tensor Addition::backward(const BackwardPass& pass) const {
    const at::Tensor dy =
        in_type(pass.context.branch_type, factor_ == 1 ? pass.d_result : pass.d_result * factor_);
    return output_->backward(pass, dy);
}

at::Tensor AdditionOfRows::forward(const Pass& pass, at::Tensor rows,
                                   const at::Tensor& into) const {
    at::Tensor output = output_->forward(pass, std::move(rows));
    if (factor_ != 1) output.mul_(factor_);
    return ops::add_into(std::move(output), pass.saved[stream_], into);
}

void AdditionOfRows::add_costs(StageCosts& costs, bool is_made_again) const {
    output_->add_costs(costs, is_made_again);
    const double numbers = (factor_ == 1 ? 3 : 5) * width_;
    costs.add_rows("residuals, added", (is_made_again ? 2 : 1) * numbers,
                   {"CUDAFunctor_add", "MulFunctor"});
}

at::Tensor AdditionByNextNorm::forward(const Pass& pass, at::Tensor rows, const at::Tensor&) const {
    return pass.saved[stream_] = output_->forward(pass, std::move(rows));
}

at::Tensor AdditionByProduct::forward(const Pass& pass, at::Tensor rows,
                                      const at::Tensor& into) const {
    return output_->part().last_product()->forward_add(pass.context.projections, pass.weights, rows,
                                                       pass.saved[stream_], into);
}

void AdditionByProduct::add_costs(StageCosts& costs, bool is_made_again) const {
    const auto width = static_cast<double>(output_->part().last_product()->shape().out);
    costs.add_rows("residuals, read by products", (is_made_again ? 2 : 1) * width, {});
}

}  // namespace ringshard::model
