#pragma once

#include <ATen/core/Tensor.h>

#include "ringshard/attention/chain.hpp"
#include "ringshard/comm/communicator.hpp"

// The ranks of a ring exchange these numbers of the stretches of cut documents. All of it is
// collective over the ring, and travels where any document is cut.
namespace ringshard::attention {

// maps [slots of this rank, heads, dk, dk + dv] or [..., 1 + dv] (ops::delta_rule_maps): where each
// of its stretches leads, in the order of Chain::cut. Returns the states in which the stretches
// begin, [stretches, heads, dk, dv].
at::Tensor first_states(const Chain& chain, comm::Communicator& ring, const at::Tensor& maps,
                        int64_t value_dim);
// Returns, against the order of tokens, the gradients of the states in which the stretches end.
at::Tensor last_state_gradients(const Chain& chain, comm::Communicator& ring,
                                const at::Tensor& maps, int64_t value_dim);

// Returns the rows before each stretch of x [t, c], [stretches, rows_before, c]: zeros where its
// document begins.
at::Tensor rows_before_stretches(const Chain& chain, comm::Communicator& ring, const at::Tensor& x);
// Adds the gradients of the rows before stretches, of all ranks, to the gradient of x.
void add_gradient_of_rows_before(const Chain& chain, comm::Communicator& ring,
                                 const at::Tensor& d_before, const at::Tensor& dx);

// Moves the last rows of each stretch of x into a cache, behind those that are there. Not
// collective.
void keep_last_rows(const at::Tensor& x, const Chain& chain, const at::Tensor& before);

}  // namespace ringshard::attention
