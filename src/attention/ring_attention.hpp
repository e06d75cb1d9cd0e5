#pragma once

#include "local_attention.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::attention {

// Attention over the tokens of all ring ranks. Keys and values travel to the next rank while the
// tiles of the present ones are computed. Collective over the ring.
Partial ring_forward(const LocalAttention& local, const Heads& heads, const Plan& plan,
                     comm::Communicator& ring);

// Writes the gradients, in the type of q. Those of keys and values travel with them, in fp32, and
// are back at their rank after a full rotation.
void ring_backward(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                   const Partial& whole, const Plan& plan, comm::Communicator& ring,
                   const HeadGradients& gradients);

}  // namespace ringshard::attention
