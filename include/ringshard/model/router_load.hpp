#pragma once

#include <cstdint>
#include <vector>

namespace ringshard::model {

// The choices of the routers of a model for the tokens of a rank, summed over micro-batches.
struct RouterLoad {
    // The tokens of each expert: all experts of the first block that has some, then those of the
    // next one. Empty: the model has no experts.
    std::vector<int64_t> choices{};
    // This rank's part of the loss that balances the experts, without its coefficient.
    double aux_loss = 0;
};

}  // namespace ringshard::model
