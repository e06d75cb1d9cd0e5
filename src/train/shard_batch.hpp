#pragma once

#include <span>

#include "ringshard/attention/plan.hpp"
#include "ringshard/attention/sequence_partition.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/token_batch.hpp"
#include "ringshard/train/reference_log_probs.hpp"

namespace ringshard::train {

// Returns this rank's part of a micro-batch, on its device. Pads the batch with a document without
// targets, so that it divides. The dropout key of a token is a function of the bits of its
// learner's step, of the row in the dataset and of the place in the row.
model::TokenBatch shard_batch(data::FlatBatch batch, const mesh::Mesh& mesh,
                              std::span<const attention::Mask> masks);

// The same for rows of answers, without dropout, which their reference has not either.
model::TokenBatch shard_answers(data::FlatBatch batch, const mesh::Mesh& mesh,
                                std::span<const attention::Mask> masks,
                                const ReferenceLogProbs& reference, const model::AllPairs& all);

// The same for rows of texts whose documents are embedded, without dropout: an embedding is
// computed twice.
model::TokenBatch shard_texts(data::FlatBatch batch, const mesh::Mesh& mesh,
                              std::span<const attention::Mask> masks);

// Returns the micro-batch in the order that suits the mesh: on a GPU, where attention calls take
// documents of about one length (attention/tile_pack.hpp), the longest ones first. For passes that
// only sum over tokens.
data::FlatBatch order_for_attention(data::FlatBatch batch, const mesh::Mesh& mesh);

// Returns the tokens of each rank of the sequence group.
attention::SequencePartition partition_of(const data::FlatBatch& batch,
                                          const mesh::MeshShape& shape);

}  // namespace ringshard::train
