#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "ringshard/attention/plan.hpp"

namespace ringshard::attention {

// Tiles of one size at equal distances, as rows of equal length make them: one call for all.
struct TileGroup {
    Tile first;
    int64_t count;
    int64_t q_distance;
    int64_t k_distance;
};
std::vector<TileGroup> group_tiles(std::span<const Tile> tiles);

// The rows of a group in [t, heads, ...]: [count, length, heads, ...].
at::Tensor query_rows(const at::Tensor& tensor, const TileGroup& group);
at::Tensor key_rows(const at::Tensor& tensor, const TileGroup& group);

}  // namespace ringshard::attention
