#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "block_context.hpp"
#include "ringshard/comm/communicator.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/router_load.hpp"

namespace ringshard::model {

// The choices of all routers, and the loss that balances the experts (load_balancing_loss_func of
// transformers): experts x sum over the experts of (share of the choices) x (mean probability),
// both over all blocks with experts and all tokens of a micro-batch, of all ranks. The first is a
// constant for the gradient, and one sum over the world, between the passes, makes it exact. Its
// choices are those of the probabilities alone, without the corrections of some routers.
class RouterSums {
public:
    RouterSums(const ModelSpec& spec, comm::Communicator& world, at::Device device);

    // Begins a micro-batch; its first tokens count.
    void begin_pass(int64_t num_counted);
    // Returns the sums of a block for the current pass; empty for a block without experts.
    RouterContext of_block(size_t block) const;
    // After the forward pass. Adds `share` of the loss of this micro-batch to that of the step, and
    // finds its gradient. Collective over the world.
    void balance(double share);
    // Returns the sums since the last call.
    RouterLoad take();

private:
    double coefficient_;  // of the loss; 0 turns it off
    comm::Communicator& world_;
    int64_t num_experts_;
    std::vector<std::optional<int64_t>> row_of_block_;
    int64_t num_counted_ = 0;
    at::Tensor choices_;        // [blocks with experts, experts] int64, of the step
    at::Tensor before_;         // the same, when the pass began
    at::Tensor probabilities_;  // [experts] fp64, of the pass
    std::optional<at::Tensor>
        uncorrected_;           // [experts] int64, of the pass, where routers have corrections
    at::Tensor d_probability_;  // [experts] fp32
    at::Tensor aux_loss_;       // [] fp64, of the step
};

}  // namespace ringshard::model
