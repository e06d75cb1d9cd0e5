#include "tile_pack.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "ringshard/base/error.hpp"
#include "ringshard/base/narrow.hpp"

namespace ringshard::attention {

namespace {

bool follows(const Tile& tile, const Tile& before) {
    return tile.q == before.q + before.num_q && tile.k == before.k + before.num_k;
}

// Queries that see keys among the same tokens.
bool is_document(const Tile& tile) { return tile.q == tile.k && tile.num_q == tile.num_k; }

// The band with which one call can take tiles that follow one another. A window does nothing to
// documents that are no longer: these are causal, and longer ones beside them have the window.
class SharedBand {
public:
    explicit SharedBand(const Tile& first) : band_(first.band) { note(first); }

    const ops::Band& band() const { return band_; }
    // Returns false, and changes nothing, if the call cannot take this tile too.
    bool add(const Tile& tile) {
        if (tile.band != band_) {
            const bool has_window = !ops::is_common(band_);
            const ops::Band& window = has_window ? band_ : tile.band;
            const ops::Band& other = has_window ? tile.band : band_;
            const int64_t longest_causal = has_window ? tile.num_q : longest_;
            const bool does_nothing = are_documents_ && is_document(tile) && other == ops::causal &&
                                      window.ahead == 0 && longest_causal <= window.back + 1;
            if (!does_nothing) return false;
            band_ = window;
        }
        note(tile);
        return true;
    }

private:
    void note(const Tile& tile) {
        are_documents_ = are_documents_ && is_document(tile);
        longest_ = std::max(longest_, tile.num_q);
    }

    ops::Band band_;
    bool are_documents_ = true;
    int64_t longest_ = 0;
};

TilePack equal(const TileGroup& group) {
    TilePack pack;
    pack.group = group;
    pack.longest_q = group.first.num_q;
    pack.longest_k = group.first.num_k;
    return pack;
}

TilePack ragged(std::span<const Tile> tiles) {
    const Tile& first = tiles.front();
    TilePack pack;
    pack.group = {first, 1, 0, 0};
    SharedBand shared(first);
    for (const Tile& tile : tiles) {
        RINGSHARD_CHECK(shared.add(tile), "tiles of several bands");
        pack.q_starts.push_back(narrow<int32_t>(tile.q - first.q));
        pack.k_starts.push_back(narrow<int32_t>(tile.k - first.k));
        pack.longest_q = std::max(pack.longest_q, tile.num_q);
        pack.longest_k = std::max(pack.longest_k, tile.num_k);
    }
    pack.group.first.band = shared.band();
    const Tile& last = tiles.back();
    pack.q_starts.push_back(narrow<int32_t>(last.q + last.num_q - first.q));
    pack.k_starts.push_back(narrow<int32_t>(last.k + last.num_k - first.k));
    return pack;
}

}  // namespace

namespace {

TilePack pack_of(std::span<const Tile> neighbours) {
    const std::vector<TileGroup> groups = group_tiles(neighbours);
    return groups.size() > 1 ? ragged(neighbours) : equal(groups.front());
}

// Among tiles of other lengths a large one has a call of its own: FlashAttention-2 would launch as
// many blocks for each of the others as the longest needs, and cuDNN, which takes no lengths, is
// about twice as fast on it.
bool is_large(const Tile& tile, int64_t cuts_from) {
    constexpr int64_t pairs = int64_t{8192} * 8192;
    return tile.num_q * tile.num_k >= pairs || std::min(tile.num_q, tile.num_k) >= cuts_from;
}

// FlashAttention-2 launches as many blocks of 128 queries for each document of a call as its
// longest document needs.
int64_t blocks_of(const Tile& tile) {
    constexpr int64_t queries_per_block = 128;
    return (tile.num_q + queries_per_block - 1) / queries_per_block;
}

bool are_sorted_documents(std::span<const Tile> tiles) {
    return std::ranges::all_of(tiles, is_document) &&
           std::ranges::is_sorted(tiles, std::greater(), &Tile::num_q);
}

// Returns where the calls of documents end that stand in order, the longest first: such that empty
// blocks and calls together cost least.
std::vector<size_t> ends_of_calls(std::span<const Tile> documents) {
    // In blocks of one head: the kernels of a call, forward and back, start and end by themselves.
    constexpr int64_t cost_of_call = 24;
    struct Level {  // documents of as many blocks
        int64_t blocks;
        size_t end;
    };
    std::vector<Level> levels;
    for (size_t i = 0; i < documents.size(); ++i) {
        const int64_t blocks = blocks_of(documents[i]);
        if (levels.empty() || levels.back().blocks != blocks) levels.push_back({blocks, i});
        levels.back().end = i + 1;
    }
    struct Best {  // of the documents up to a level
        int64_t cost = 0;
        size_t last_call = 0;  // the level at which it begins
    };
    const auto end_before = [&](size_t level) { return level == 0 ? 0 : levels[level - 1].end; };
    std::vector<Best> best(levels.size() + 1);
    for (size_t end = 1; end <= levels.size(); ++end) {
        best[end].cost = std::numeric_limits<int64_t>::max();
        for (size_t begin = 0; begin < end; ++begin) {
            const auto count = static_cast<int64_t>(levels[end - 1].end - end_before(begin));
            const int64_t cost = best[begin].cost + cost_of_call + count * levels[begin].blocks;
            if (cost < best[end].cost) best[end] = {cost, begin};
        }
    }
    std::vector<size_t> ends;
    for (size_t level = levels.size(); level > 0; level = best[level].last_call)
        ends.push_back(levels[level - 1].end);
    std::ranges::reverse(ends);
    return ends;
}

int64_t length_with_a_plan(int64_t length) {
    const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length)) / 8);
    return length / step * step;
}

void cut(TilePack& pack) {
    Tile& tile = pack.group.first;
    const int64_t length = length_with_a_plan(tile.num_q);
    if (length == tile.num_q) return;
    pack.behind = Tile{tile.q + length, tile.k, tile.num_q - length, tile.num_k, {.ahead = length}};
    tile.num_q = tile.num_k = length;
    pack.longest_q = pack.longest_k = length;
}

bool is_cut(const TilePack& pack, int64_t cuts_from) {
    const Tile& tile = pack.group.first;
    return !pack.is_ragged() && pack.group.count == 1 && tile.num_q >= cuts_from &&
           tile.num_q == tile.num_k && tile.band == ops::causal;
}

void add_packs(std::span<const Tile> neighbours, int64_t cuts_from, std::vector<TilePack>& packs) {
    const auto add = [&](std::span<const Tile> tiles) {
        TilePack& pack = packs.emplace_back(pack_of(tiles));
        if (is_cut(pack, cuts_from)) cut(pack);
    };
    if (group_tiles(neighbours).size() == 1) return add(neighbours);
    size_t begin = 0;
    const auto end_pack = [&](size_t end) {
        const std::span<const Tile> tiles = neighbours.subspan(begin, end - begin);
        begin = end;
        if (tiles.empty()) return;
        const std::vector<size_t> ends =
            are_sorted_documents(tiles) ? ends_of_calls(tiles) : std::vector{tiles.size()};
        if (ends.size() == 1) return add(tiles);
        // Ragged, even of one length: cuDNN would plan it, and it does not come again.
        size_t first = 0;
        for (const size_t last : ends) {
            packs.push_back(ragged(tiles.subspan(first, last - first)));
            first = last;
        }
    };
    for (size_t tile = 0; tile < neighbours.size(); ++tile) {
        if (!is_large(neighbours[tile], cuts_from)) continue;
        end_pack(tile);
        end_pack(tile + 1);
    }
    end_pack(neighbours.size());
}

}  // namespace

std::vector<TilePack> pack_tiles(std::span<const Tile> tiles, int64_t cuts_from) {
    std::vector<TilePack> packs;
    for (size_t begin = 0; begin < tiles.size();) {
        SharedBand shared(tiles[begin]);
        size_t end = begin + 1;
        while (end < tiles.size() && follows(tiles[end], tiles[end - 1]) && shared.add(tiles[end]))
            ++end;
        add_packs(tiles.subspan(begin, end - begin), cuts_from, packs);
        begin = end;
    }
    return packs;
}

TilePack call_behind(const TilePack& pack) { return equal({pack.behind.value(), 1, 0, 0}); }

TilePack tokens_behind(const TilePack& pack) {
    Tile tile = pack.behind.value();
    tile.k += tile.num_k - tile.num_q;
    tile.num_k = tile.num_q;
    tile.band = ops::causal;
    return equal({tile, 1, 0, 0});
}

bool is_causal_at_the_end(const Tile& tile) {
    return tile.band.back == ops::Band::unlimited && tile.band.ahead == tile.num_k - tile.num_q;
}

std::string to_text(AttentionKernel kernel) {
    switch (kernel) {
        case AttentionKernel::cudnn: return "cuDNN";
        case AttentionKernel::flash: return "FlashAttention-2";
        case AttentionKernel::products: return "products of matrices";
    }
    RINGSHARD_CHECK(false);
}

namespace {

// FlashAttention-2 counts a window from the last key of the last query: so from the tokens
// themselves where queries and keys are the same.
bool is_in_flash(const TilePack& pack) {
    const Tile& tile = pack.group.first;
    return ops::is_common(tile.band) || is_causal_at_the_end(tile) ||
           (tile.band.ahead == 0 && tile.q == tile.k && tile.num_q == tile.num_k);
}

bool has_fast_cudnn(const GpuTraits& gpu) {
    return gpu.compute_capability == 9 || gpu.compute_capability == 10;
}

}  // namespace

int64_t cuts_from(const GpuTraits& gpu) {
    constexpr int64_t large = 8192;
    return has_fast_cudnn(gpu) && !gpu.must_be_deterministic ? large : no_cuts;
}

AttentionKernel choose_kernel(const TilePack& pack, at::ScalarType type, const HeadForm& form,
                              const GpuTraits& gpu) {
    const bool has_kernels = gpu.compute_capability > 0 && type != at::kFloat;
    const int64_t head_dim = form.head_dim;
    if (form.scores.cap > 0) return AttentionKernel::products;
    if (!has_kernels || head_dim % 8 != 0 || head_dim > 256) return AttentionKernel::products;
    if (!is_in_flash(pack)) return AttentionKernel::products;
    if (!ops::is_common(pack.group.first.band)) return AttentionKernel::flash;
    if (!has_fast_cudnn(gpu) || gpu.must_be_deterministic || pack.is_ragged() || head_dim > 128)
        return AttentionKernel::flash;
    // On B200, cuDNN 9.19 and 9.20 are reported to give wrong results for fewer than eight key
    // heads (pytorch#193893). Until a B200 has passed attention_on_gpu_test, such models take the
    // slower kernel there.
    if (gpu.compute_capability == 10 && form.key_heads < HeadForm::many)
        return AttentionKernel::flash;
    const Tile& tile = pack.group.first;
    const auto is_multiple_of = [&](int64_t length) {
        return tile.num_q % length == 0 && tile.num_k % length == 0;
    };
    // cuDNN goes through 128 queries and keys at a time. On Hopper its backward pass (9.19 and
    // later) takes what fills up the last of them for scores of 0, and gives NaN where real scores
    // are so low that exp(-lse) overflows, as some heads of Qwen2.5 have them. What is causal masks
    // it.
    constexpr int64_t at_a_time = 128;
    if (tile.band == ops::every_key && !is_multiple_of(at_a_time)) return AttentionKernel::flash;
    // It makes a plan for every shape that it has not seen, in tenths of a second, and LibTorch
    // keeps each until the process ends: lengths of rows and of documents that are cut come again,
    // other lengths do not. A tile this large (64k x 64k) is worth a plan of its own.
    constexpr int64_t lengths_of_rows = 64;
    constexpr int64_t worth_a_plan = int64_t{1} << 32;
    return is_multiple_of(lengths_of_rows) || tile.num_q * tile.num_k >= worth_a_plan
               ? AttentionKernel::cudnn
               : AttentionKernel::flash;
}

}  // namespace ringshard::attention
