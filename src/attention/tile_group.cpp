#include "tile_group.hpp"

namespace ringshard::attention {

namespace {

bool are_alike(const Tile& a, const Tile& b) {
    return a.num_q == b.num_q && a.num_k == b.num_k && a.band == b.band;
}

at::Tensor rows(const at::Tensor& tensor, int64_t first, int64_t length, int64_t count,
                int64_t distance) {
    std::vector<int64_t> sizes{count, length};
    // One row alone has no distance, and a stride all the same: cuDNN's backward pass refuses 0,
    // and its engines count strides in 32 bits, which `length` rows of the longest exceed.
    const int64_t to_next_row = count == 1 ? 1 : distance;
    std::vector<int64_t> strides{to_next_row * tensor.stride(0), tensor.stride(0)};
    for (int64_t dim = 1; dim < tensor.dim(); ++dim) {
        sizes.push_back(tensor.size(dim));
        strides.push_back(tensor.stride(dim));
    }
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + first * tensor.stride(0));
}

}  // namespace

std::vector<TileGroup> group_tiles(std::span<const Tile> tiles) {
    std::vector<TileGroup> groups;
    for (const Tile& tile : tiles) {
        if (!groups.empty() && are_alike(groups.back().first, tile)) {
            TileGroup& group = groups.back();
            const int64_t q_distance = (tile.q - group.first.q) / group.count;
            const int64_t k_distance = (tile.k - group.first.k) / group.count;
            const bool is_new = group.count == 1;
            const bool fits =
                is_new || (q_distance == group.q_distance && k_distance == group.k_distance &&
                           tile.q == group.first.q + group.count * q_distance &&
                           tile.k == group.first.k + group.count * k_distance);
            // Rows of one call must share neither queries nor keys.
            if (fits && q_distance >= tile.num_q && k_distance >= tile.num_k) {
                group.q_distance = q_distance;
                group.k_distance = k_distance;
                ++group.count;
                continue;
            }
        }
        groups.push_back({tile, 1, 0, 0});
    }
    return groups;
}

at::Tensor query_rows(const at::Tensor& tensor, const TileGroup& group) {
    return rows(tensor, group.first.q, group.first.num_q, group.count, group.q_distance);
}

at::Tensor key_rows(const at::Tensor& tensor, const TileGroup& group) {
    return rows(tensor, group.first.k, group.first.num_k, group.count, group.k_distance);
}

}  // namespace ringshard::attention
