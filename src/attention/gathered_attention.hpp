#pragma once

#include "local_attention.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::attention {

// Attention over the tokens of all ring ranks, by the plan of a ring. Keys and values of all ranks
// are gathered at once, while the tiles of this rank's own are computed: one collective in place of
// one per step, for the memory of all keys and values. Collective over the ring.
Partial gathered_forward(const LocalAttention& local, const Heads& heads, const Plan& plan,
                         comm::Communicator& ring);

// Writes the gradients, in the type that they have. Those of keys and values are summed over the
// ranks in fp32, and each rank gets its own.
void gathered_backward(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                       const Partial& whole, const Plan& plan, comm::Communicator& ring,
                       const HeadGradients& gradients);

}  // namespace ringshard::attention
