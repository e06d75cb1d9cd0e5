#pragma once

#include "local_attention.hpp"
#include "ringshard/comm/communicator.hpp"

namespace ringshard::attention {

// Attention over the tokens of all ring ranks. Keys and values travel to the next rank while the
// tiles of the present ones are computed. Collective over the ring.
Partial ring_forward(const Heads& heads, const Plan& plan, comm::Communicator& ring);

struct HeadGradients {
    at::Tensor dq;  // [t, h, d], fp32
    at::Tensor dk;  // [t, g, d], fp32
    at::Tensor dv;
};
// The gradients of keys and values travel with them, in fp32, and are home after a whole round.
HeadGradients ring_backward(const at::Tensor& d_out, const Heads& heads, const Partial& whole,
                            const Plan& plan, comm::Communicator& ring);

}  // namespace ringshard::attention
