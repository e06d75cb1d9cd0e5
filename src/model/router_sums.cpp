#include "router_sums.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ringshard/ops/device_copies.hpp"

namespace ringshard::model {

RouterSums::RouterSums(const ModelSpec& spec, comm::Communicator& world, at::Device device)
    : coefficient_(spec.router_aux_loss_coef), world_(world), num_experts_(spec.num_experts()) {
    int64_t rows = 0;
    for (const BlockSpec& block : spec.blocks)
        row_of_block_.push_back(block.experts() ? std::optional(rows++) : std::nullopt);
    const at::TensorOptions options(device);
    choices_ = at::zeros({rows, num_experts_}, options.dtype(at::kLong));
    probabilities_ = at::zeros({num_experts_}, options.dtype(at::kDouble));
    const auto is_corrected = [](const BlockSpec& block) {
        return block.experts() && !block.experts()->correction.empty();
    };
    if (coefficient_ != 0 && std::ranges::any_of(spec.blocks, is_corrected))
        uncorrected_ = at::zeros({num_experts_}, options.dtype(at::kLong));
    aux_loss_ = at::zeros({}, options.dtype(at::kDouble));
}

void RouterSums::begin_pass(int64_t num_counted) {
    num_counted_ = num_counted;
    before_ = choices_.clone();
    probabilities_.zero_();
    if (uncorrected_) uncorrected_->zero_();
    d_probability_ = at::Tensor();
}

RouterContext RouterSums::of_block(size_t block) const {
    const std::optional<int64_t>& row = row_of_block_[block];
    if (!row) return {};
    return {choices_.select(0, *row), probabilities_, uncorrected_, num_counted_, d_probability_};
}

void RouterSums::balance(double share) {
    if (coefficient_ == 0 || num_experts_ == 0) return;
    const auto blocks = choices_.size(0);
    const at::Tensor choices = uncorrected_ ? *uncorrected_ : (choices_ - before_).sum(0);
    const at::Tensor totals =
        at::cat({choices, at::full({1}, num_counted_ * blocks, choices_.options())});
    world_.all_reduce(totals).wait();
    // Rows of a router: at least one, so that a micro-batch without tokens has no loss.
    const at::Tensor rows = totals.narrow(0, num_experts_, 1).clamp_min(1).to(at::kDouble);
    const at::Tensor per_probability = totals.narrow(0, 0, num_experts_).to(at::kDouble) / rows /
                                       rows * (share * static_cast<double>(num_experts_));
    aux_loss_.add_((per_probability * probabilities_).sum());
    d_probability_ = (per_probability * coefficient_).to(at::kFloat);
}

RouterLoad RouterSums::take() {
    if (num_experts_ == 0) return {};
    const at::Tensor here = ops::on_host(choices_).contiguous();
    const auto* const first = here.const_data_ptr<int64_t>();
    RouterLoad load{{first, first + here.numel()}, aux_loss_.item<double>()};
    choices_.zero_();
    aux_loss_.zero_();
    return load;
}

}  // namespace ringshard::model
