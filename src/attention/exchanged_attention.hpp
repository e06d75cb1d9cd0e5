#pragma once

#include "local_attention.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::attention {

// Attention over the tokens of all ring ranks by a plan with an exchange: every rank sends the keys
// and values that another needs, and no others, at once. Collective over the ring.
Partial exchanged_forward(const LocalAttention& local, const Heads& heads, const Plan& plan,
                          comm::Communicator& ring);

// Writes the gradients, in the type that they have. Those of keys and values that others saw come
// back from there in fp32, and are added in the order of ranks.
void exchanged_backward(const LocalAttention& local, const at::Tensor& d_out, const Heads& heads,
                        const Partial& whole, const Plan& plan, comm::Communicator& ring,
                        const HeadGradients& gradients);

}  // namespace ringshard::attention
