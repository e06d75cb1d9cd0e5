#include "output_beside_mlp.hpp"

namespace ringshard::model {

OutputBesideMlp::OutputBesideMlp(const Part& experts, MlpBeside beside,
                                 std::shared_ptr<const Norm> behind, SavedLayout& slots,
                                 const SavedSlot& stream, config::ActivationPolicy keeps)
    : Output(experts),
      beside_(std::move(beside)),
      behind_(std::move(behind)),
      input_(beside_.before, slots, stream, keeps),
      of_experts_(slots.add(keeps)),
      of_mlp_(slots.add(keeps)),
      sum_(slots.add(keeps)) {}

void OutputBesideMlp::make_rows(const Pass& pass, at::Tensor rows) const {
    Saved& saved = pass.saved;
    saved[of_experts_] = Output::forward(pass, std::move(rows));
    beside_.mlp->make_inner(pass, input_.forward(pass));
    saved[of_mlp_] = beside_.mlp->make_output(pass);
    at::Tensor sum = beside_.behind->forward(pass.weights, saved[of_mlp_]).y;
    saved[sum_] = sum.add_(beside_.behind_experts->forward(pass.weights, saved[of_experts_]).y);
}

at::Tensor OutputBesideMlp::forward(const Pass& pass, at::Tensor rows) const {
    make_rows(pass, std::move(rows));
    return behind_->forward(pass.weights, pass.saved[sum_]).y;
}

at::Tensor OutputBesideMlp::backward(const BackwardPass& pass, const at::Tensor& dy) const {
    const Saved& saved = pass.saved;
    const at::Tensor d_sum = norm_gradient(*behind_, pass, dy, saved[sum_]);
    const at::Tensor d_mlp = norm_gradient(*beside_.behind, pass, d_sum, saved[of_mlp_]);
    input_.add_gradient(pass, beside_.mlp->backward_to(pass, d_mlp, input_.again(pass)));
    return norm_gradient(*beside_.behind_experts, pass, d_sum, saved[of_experts_]);
}

void OutputBesideMlp::add_costs(StageCosts& costs, bool) const {
    const bool is_made_again = !of_experts_.is_kept(costs.policy);
    input_.add_costs(costs, is_made_again, RowsInBackward::made_again_alone);
    beside_.mlp->add_costs(costs, {is_made_again, is_made_again});
    for (const Norm* norm : {behind_.get(), beside_.behind.get(), beside_.behind_experts.get()}) {
        norm->add_costs(costs);
        norm->add_costs_again(costs);  // of the inverse root mean squares
        if (is_made_again) norm->add_costs_again(costs);
    }
}

}  // namespace ringshard::model
