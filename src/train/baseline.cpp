#include "baseline.hpp"

#include <algorithm>

#include "shard_batch.hpp"

namespace ringshard::train {

double read_baseline(const comm::Group& world, const mesh::Mesh& mesh,
                     const model::Transformer& model, const ReferenceLogProbs& reference,
                     int64_t batches, const std::function<data::FlatBatch(int64_t)>& next_batch) {
    enum { ratios, rows };
    std::vector<double> sums(2);
    for (int64_t batch = 0; batch < batches; ++batch) {
        const model::TokenBatch mine = shard_answers(order_for_attention(next_batch(batch), mesh),
                                                     mesh, model.masks(), reference, {});
        const std::vector<double> log_probs = model.log_probs_of_sides(mine);
        if (mesh.sequence_rank() != 0) continue;
        for (size_t side = 0; side < log_probs.size(); ++side)
            sums[ratios] += log_probs[side] - mine.pairs->sides[side].reference;
        sums[rows] += static_cast<double>(log_probs.size()) / 2;
    }
    sums = world.sum(sums);
    return std::max(0.0, sums[ratios] / std::max(1.0, sums[rows]));
}

}  // namespace ringshard::train
