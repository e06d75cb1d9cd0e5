#pragma once

#include <algorithm>
#include <optional>

#include "projection_spec.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::model {

// The sums that the routers of a pass share, for one block and some of its tokens.
struct RouterContext {
    // [experts]: a forward pass adds its choices (int64) and probabilities (fp64). Undefined: not
    // counted.
    at::Tensor choices{};
    at::Tensor probabilities{};
    // [experts] int64: the choices without the corrections of the probabilities. Undefined: there
    // are no corrections.
    at::Tensor uncorrected{};
    int64_t num_counted = 0;  // the first tokens; the others only fill the batch up
    // [experts] fp32: the gradient of the loss that balances the experts, by the probabilities of a
    // counted token. Undefined: none.
    at::Tensor d_probability{};

    RouterContext of_tokens(int64_t begin, int64_t length) const {
        return {choices, probabilities, uncorrected,
                std::clamp<int64_t>(num_counted - begin, 0, length), d_probability};
    }
};

// The ranks that share experts.
struct ExpertGroup {
    comm::Communicator* ranks = nullptr;  // null: all experts are here
    int64_t most_tokens = 0;              // of one of the ranks
    int64_t least_rows = 1;               // of an expert in a chunk that travels, in the mean
};

// The compute type, if the residual stream has another one.
using BranchType = std::optional<at::ScalarType>;

struct MlpContext {
    ProjectionContext projections;
    RouterContext routers;
    ExpertGroup experts{};
    bool keeps_inner = true;     // a backward pass goes on from the tensors of the forward pass
    bool keeps_product = false;  // and from MlpInner::product
    BranchType branch_type{};
};

}  // namespace ringshard::model
