#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/ops/score_form.hpp"
#include "tile_group.hpp"

namespace ringshard::attention {

// Tiles that one call of a GPU's kernel takes: equal ones at equal distances, as rows of a batch;
// or neighbours of any lengths, one after the other in queries and in keys, of which none is large.
// Documents that stand in order, the longest first, are cut into calls of about one length.
struct TilePack {
    // The first tile, and the others if they are equal. Its band is that of the call: of tiles of
    // other lengths, the window of the longest documents.
    TileGroup group{};
    // Else where each tile begins, counted from the first, and where the last one ends.
    std::vector<int32_t> q_starts{};
    std::vector<int32_t> k_starts{};
    int64_t longest_q = 0;
    int64_t longest_k = 0;
    // The queries behind a tile of a document that is cut, with all its keys: a further call.
    std::optional<Tile> behind{};

    bool is_ragged() const { return !q_starts.empty(); }
    int64_t num_q() const { return q_starts.back(); }
    int64_t num_k() const { return k_starts.back(); }
};
// Documents of at least `cuts_from` tokens have calls of their own, and are cut: into a causal tile
// of one of eight lengths between two powers of two, and the queries behind it. So a kernel that
// plans each length takes nearly all of them, and has few plans.
inline constexpr int64_t no_cuts = std::numeric_limits<int64_t>::max();
std::vector<TilePack> pack_tiles(std::span<const Tile> tiles, int64_t cuts_from = no_cuts);

// The call for the queries behind.
TilePack call_behind(const TilePack& pack);
// The tokens behind, as a document of their own: where their gradients belong.
TilePack tokens_behind(const TilePack& pack);
// Returns true if the last query sees every key, and each query before it one less.
bool is_causal_at_the_end(const Tile& tile);

// The operators that compute a pack on a GPU.
enum class AttentionKernel {
    cudnn,  // the fastest on Hopper and newer, for shapes that come again: it plans each shape anew
    flash,  // FlashAttention-2
    products  // ops::plain_attention: fp32, and heads and scores that the others do not take
};
struct HeadForm {
    static constexpr int64_t many = 8;  // key heads
    HeadForm(int64_t width, ops::ScoreForm form = {}, int64_t heads_of_keys = many)
        : head_dim(width), scores(form), key_heads(heads_of_keys) {}
    int64_t head_dim;
    ops::ScoreForm scores;
    int64_t key_heads;  // of one call
};
struct GpuTraits {
    int compute_capability = 0;  // 9 on Hopper; 0 where a test has none
    bool must_be_deterministic = false;
};
std::string to_text(AttentionKernel kernel);
// Returns the length from which documents are cut on this GPU.
int64_t cuts_from(const GpuTraits& gpu);
AttentionKernel choose_kernel(const TilePack& pack, at::ScalarType type, const HeadForm& form,
                              const GpuTraits& gpu);

}  // namespace ringshard::attention
