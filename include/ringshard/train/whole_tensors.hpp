#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "ringshard/comm/communicator.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/shard/zero.hpp"

// What the ranks hold in parts, put together: for models so small that each rank has room for all.
namespace ringshard::train {

// Whole tensors by their names, in fp32 on the host, of the weights but those in four bits, or of
// the gradients of those that are trained. Collective over the zero group.
std::map<std::string, at::Tensor> whole_weights(const shard::Zero& zero, const mesh::Mesh& mesh);
std::map<std::string, at::Tensor> whole_gradients(const shard::Zero& zero, const mesh::Mesh& mesh);

// Returns the logits [t, vocabulary] of all tokens of a batch that all ranks have, in order, in
// fp32 on the host. `sequence`: the ranks that share a batch. Collective over the zero group.
at::Tensor whole_logits(const model::Transformer& model, const mesh::Mesh& mesh,
                        comm::Communicator& sequence, const data::FlatBatch& batch);

}  // namespace ringshard::train
