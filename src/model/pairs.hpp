#pragma once

#include <vector>

#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/objective.hpp"
#include "ringshard/model/token_batch.hpp"

namespace ringshard::model {

// The log-probability of a side.
struct SideSums {
    double of_answer = 0;
    double with_prompt = 0;  // where its targets are learned, too
};
// Returns that of each side, from the statistics of this rank's targets, [n, any] on the host.
// Collective over the sequence group.
std::vector<SideSums> sum_sides(const TokenPairs& pairs, const at::Tensor& token_stats,
                                const mesh::Mesh& mesh);

struct WeighedPairs {
    at::Tensor weights;  // [n] fp32: by which the cross-entropy of each target has the gradient of
                         // the losses of the pairs
    // [n, Objective::numbers_per_token]: each target has an equal share in those of its pair.
    at::Tensor token_stats;
};
// token_stats: [n, ops::stats_per_token], without weights. Collective over the sequence group.
WeighedPairs weigh_pairs(const Objective& objective, const TokenPairs& pairs,
                         const at::Tensor& token_stats, const mesh::Mesh& mesh);

}  // namespace ringshard::model
