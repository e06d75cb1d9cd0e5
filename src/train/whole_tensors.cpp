#include "ringshard/train/whole_tensors.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "shard_batch.hpp"

namespace ringshard::train {

namespace {

// Every rank of the zero group says where its shard lies.
void put_shards(const mesh::Mesh& mesh, const at::Tensor& flat, const shard::Range& range,
                const at::Tensor& shard) {
    const int64_t ranks = mesh.zero().size();
    const at::Tensor begins = at::empty({ranks}, at::TensorOptions(mesh.device()).dtype(at::kLong));
    const at::Tensor shards = at::empty({ranks, range.size()}, flat.options());
    mesh.zero().all_gather(begins, at::full({1}, range.begin, begins.options())).wait();
    mesh.zero().all_gather(shards, shard.to(at::kFloat).contiguous()).wait();
    for (int64_t rank = 0; rank < ranks; ++rank)
        flat.narrow(0, begins[rank].item<int64_t>(), range.size()).copy_(shards[rank]);
}

enum class Wanted { weights, gradients };

std::map<std::string, at::Tensor> put_together(const shard::Zero& zero, const mesh::Mesh& mesh,
                                               Wanted wanted) {
    std::map<std::string, at::Tensor> tensors;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        if (wanted == Wanted::gradients && !zero.is_trained(unit)) continue;
        const shard::FlatUnit& layout = zero.units()[unit];
        if (layout.placement().is_coded()) continue;
        const at::Tensor flat = at::empty({layout.size()}, at::TensorOptions(mesh.device()));
        const auto [chunks, weights] = zero.weights_at_rest_of(unit);
        put_shards(mesh, flat, chunks.shard(unit),
                   (wanted == Wanted::gradients ? *zero.shelf_of(unit).gradients : weights)
                       .load_shard(unit));
        for (const shard::PlacedTensor& tensor : layout.tensors())
            if (!tensor.begins_before)
                tensors[tensor.spec.name] =
                    at::empty(tensor.spec.shape, at::TensorOptions(at::kFloat));
        for (const shard::TensorPiece& piece : layout.pieces({0, layout.size()}))
            tensors[piece.tensor->spec.name]
                .flatten()
                .narrow(0, piece.first, piece.size)
                .copy_(flat.narrow(0, piece.in_range, piece.size));
    }
    return tensors;
}

}  // namespace

std::map<std::string, at::Tensor> whole_weights(const shard::Zero& zero, const mesh::Mesh& mesh) {
    return put_together(zero, mesh, Wanted::weights);
}

std::map<std::string, at::Tensor> whole_gradients(const shard::Zero& zero, const mesh::Mesh& mesh) {
    return put_together(zero, mesh, Wanted::gradients);
}

at::Tensor whole_logits(const model::Transformer& model, const mesh::Mesh& mesh,
                        comm::Communicator& sequence, const data::FlatBatch& batch) {
    const at::Tensor mine =
        model.logits(shard_batch(batch, mesh, model.masks())).to(at::kFloat).contiguous();
    const at::Tensor gathered =
        at::empty({sequence.size() * mine.size(0), mine.size(1)}, mine.options());
    sequence.all_gather(gathered, mine).wait();
    const at::Tensor all = at::empty_like(gathered);
    const attention::SequencePartition partition = partition_of(batch, mesh.shape());
    int64_t row = 0;
    for (int64_t ring = 0; ring < mesh.shape().ring; ++ring) {
        for (int64_t ulysses = 0; ulysses < mesh.shape().ulysses; ++ulysses) {
            for (const attention::Run& run : partition.of_rank(ring, ulysses)) {
                all.narrow(0, run.start, run.length).copy_(gathered.narrow(0, row, run.length));
                row += run.length;
            }
        }
    }
    return all.narrow(0, 0, static_cast<int64_t>(batch.tokens.size())).cpu();
}

}  // namespace ringshard::train
