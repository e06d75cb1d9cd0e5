// Tiles are packed into kernel calls of a GPU, and each call gets the kernel that suits it.
#include "tile_pack.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <set>

using namespace ringshard::attention;
using ringshard::ops::causal;
using ringshard::ops::every_key;

namespace {

Tile document(int64_t begin, int64_t length) { return {begin, begin, length, length, causal}; }

AttentionKernel kernel_for(int64_t queries, int64_t keys, const GpuTraits& gpu,
                           at::ScalarType type = at::kBFloat16, int64_t head_dim = 128) {
    const std::vector<Tile> tile{{0, 0, queries, keys, queries == keys ? causal : every_key}};
    return choose_kernel(pack_tiles(tile).front(), type, head_dim, gpu);
}

constexpr GpuTraits hopper{.compute_capability = 9, .must_be_deterministic = false};
constexpr GpuTraits blackwell{.compute_capability = 10, .must_be_deterministic = false};
constexpr GpuTraits ampere{.compute_capability = 8, .must_be_deterministic = false};

}  // namespace

BOOST_AUTO_TEST_CASE(documents_of_all_lengths_are_one_call) {
    const std::vector<Tile> tiles{document(0, 5), document(5, 1), document(6, 90)};
    const auto packs = pack_tiles(tiles);
    BOOST_REQUIRE(packs.size() == 1U);
    BOOST_TEST(packs[0].is_ragged());
    BOOST_TEST(packs[0].q_starts == (std::vector<int32_t>{0, 5, 6, 96}),
               boost::test_tools::per_element());
    BOOST_TEST(packs[0].k_starts == packs[0].q_starts, boost::test_tools::per_element());
    BOOST_TEST(packs[0].longest_q == 90);
}

namespace {

// Lengths of the documents of a packed micro-batch, as chats have them.
std::vector<int64_t> some_lengths(double mean, double spread, uint32_t seed) {
    constexpr int64_t tokens = 65'536;
    constexpr int64_t longest = 4096;
    std::mt19937 random(seed);
    std::lognormal_distribution<double> law(std::log(mean) - spread * spread / 2, spread);
    std::vector<int64_t> lengths;
    for (int64_t left = tokens; left > 0; left -= lengths.back())
        lengths.push_back(
            std::clamp(static_cast<int64_t>(law(random)), int64_t{1}, std::min(longest, left)));
    return lengths;
}

std::vector<Tile> documents_of(const std::vector<int64_t>& lengths) {
    std::vector<Tile> tiles;
    int64_t begin = 0;
    for (const int64_t length : lengths) {
        tiles.push_back(document(begin, length));
        begin += length;
    }
    return tiles;
}

// Blocks of 128 queries that FlashAttention-2 launches for one head.
struct Blocks {
    int64_t with_work = 0;
    int64_t empty = 0;
};
Blocks blocks_of(const std::vector<TilePack>& packs) {
    const auto blocks = [](int64_t queries) { return (queries + 127) / 128; };
    Blocks sum;
    for (const TilePack& pack : packs)
        for (size_t i = 0; i + 1 < pack.q_starts.size(); ++i) {
            const int64_t with_work = blocks(pack.q_starts[i + 1] - pack.q_starts[i]);
            sum.with_work += with_work;
            sum.empty += blocks(pack.longest_q) - with_work;
        }
    return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(calls_of_sorted_documents_have_few_empty_blocks) {
    for (const auto& [mean, spread] :
         {std::pair(300.0, 1.2), {500.0, 0.7}, {500.0, 1.0}, {1500.0, 1.0}})
        for (uint32_t seed = 1; seed <= 5; ++seed) {
            std::vector<int64_t> lengths = some_lengths(mean, spread, seed);
            const std::vector<Tile> unsorted = documents_of(lengths);
            BOOST_TEST(pack_tiles(unsorted).size() == 1U);
            std::ranges::sort(lengths, std::greater());
            const auto packs = pack_tiles(documents_of(lengths));
            const Blocks blocks = blocks_of(packs);
            BOOST_TEST_INFO_SCOPE("mean " << mean << ", spread " << spread << ", seed " << seed);
            BOOST_TEST(4 * blocks.empty <= blocks.with_work);
            BOOST_TEST(blocks.with_work == blocks_of(pack_tiles(unsorted)).with_work);
            BOOST_TEST(packs.size() <= 8U);
            // Every document is in one call, in order.
            int64_t next = 0;
            for (const TilePack& pack : packs) {
                BOOST_TEST(pack.group.first.q == next);
                next += pack.num_q();
            }
            BOOST_TEST(next == 65'536);
        }
}

BOOST_AUTO_TEST_CASE(few_or_equal_documents_stay_one_call) {
    BOOST_TEST(pack_tiles(documents_of({700, 300, 90})).size() == 1U);
    BOOST_TEST(pack_tiles(documents_of(std::vector<int64_t>(64, 512))).size() == 1U);
    // Of one length in a call beside others: not cuDNN, for which the length would be a new one.
    std::vector<int64_t> lengths(40, 1024);
    lengths.resize(140, 100);
    const auto packs = pack_tiles(documents_of(lengths));
    BOOST_REQUIRE(packs.size() == 2U);
    for (const TilePack& pack : packs) {
        BOOST_TEST(pack.is_ragged());
        BOOST_TEST((choose_kernel(pack, at::kBFloat16, 128, hopper) == AttentionKernel::flash));
    }
}

BOOST_AUTO_TEST_CASE(equal_documents_are_a_batch) {
    const std::vector<Tile> tiles{document(32, 64), document(96, 64), document(160, 64)};
    const auto packs = pack_tiles(tiles);
    BOOST_REQUIRE(packs.size() == 1U);
    BOOST_TEST(!packs[0].is_ragged());
    BOOST_TEST(packs[0].group.count == 3);
    BOOST_TEST(packs[0].group.q_distance == 64);
}

BOOST_AUTO_TEST_CASE(a_large_document_among_others_is_a_call_of_its_own) {
    std::vector<Tile> tiles;
    int64_t begin = 0;
    for (const int64_t length : {300, 70, 8191, 60'032, 5, 8192, 9000, 64, 64, 90}) {
        tiles.push_back(document(begin, length));
        begin += length;
    }
    const auto packs = pack_tiles(tiles);
    BOOST_REQUIRE(packs.size() == 6U);
    BOOST_TEST((packs[0].is_ragged() && packs[0].longest_q == 8191));
    BOOST_TEST(packs[0].q_starts.size() == 4U);
    const std::vector<size_t> large{1, 3, 4};  // places of packs
    const std::vector<size_t> of_tiles{3, 5, 6};
    for (size_t i = 0; i < large.size(); ++i) {
        BOOST_TEST(!packs[large[i]].is_ragged());
        BOOST_TEST((packs[large[i]].group.first == tiles[of_tiles[i]]));
        BOOST_TEST(packs[large[i]].group.count == 1);
    }
    BOOST_TEST((choose_kernel(packs[1], at::kBFloat16, 128, hopper) == AttentionKernel::cudnn));
    BOOST_TEST((!packs[2].is_ragged() && packs[2].group.first == tiles[4]));
    BOOST_TEST((packs[5].is_ragged() && packs[5].longest_q == 90));
    BOOST_TEST(packs[5].q_starts == (std::vector<int32_t>{0, 64, 128, 218}),
               boost::test_tools::per_element());
    // Rows of one large length stay one call.
    const std::vector<Tile> rows{document(0, 9000), document(9000, 9000)};
    BOOST_TEST(pack_tiles(rows).size() == 1U);
}

// cuDNN makes a plan for every length: documents are cut to few lengths.
BOOST_AUTO_TEST_CASE(large_documents_are_cut_where_cudnn_is_fast) {
    BOOST_TEST(cuts_from(hopper) == 8192);
    BOOST_TEST(cuts_from(ampere) == no_cuts);
    BOOST_TEST(cuts_from({9, true}) == no_cuts);
    const std::vector<Tile> tiles{document(0, 300), document(300, 9'001), document(9'301, 8'191)};
    const auto packs = pack_tiles(tiles, cuts_from(hopper));
    BOOST_REQUIRE(packs.size() == 3U);
    BOOST_TEST((!packs[0].behind && !packs[2].behind));
    BOOST_TEST((packs[1].group.first == document(300, 8'192)));
    const Tile behind{8'492, 300, 809, 9'001, {.ahead = 8'192}};
    BOOST_TEST((packs[1].behind == behind));
    BOOST_TEST((call_behind(packs[1]).group.first == behind));
    BOOST_TEST(call_behind(packs[1]).longest_k == 9'001);
    BOOST_TEST((tokens_behind(packs[1]).group.first == document(8'492, 809)));
    BOOST_TEST((choose_kernel(packs[1], at::kBFloat16, 128, hopper) == AttentionKernel::cudnn));
    BOOST_TEST((choose_kernel(call_behind(packs[1]), at::kBFloat16, 128, hopper) ==
                AttentionKernel::flash));
    std::set<int64_t> lengths;
    for (int64_t length = 8'192; length < 16'384; length += 37) {
        const std::vector<Tile> one{document(0, length)};
        const TilePack pack = pack_tiles(one, 8'192).front();
        const int64_t taken = pack.group.first.num_q;
        BOOST_TEST((pack.behind ? pack.behind->num_q : 0) == length - taken);
        BOOST_TEST((8 * (length - taken) < length && taken % 64 == 0));
        lengths.insert(taken);
    }
    BOOST_TEST(lengths.size() == 8U);
    // Rows of one length are a batch, and other masks are not cut.
    const std::vector<Tile> rows{document(0, 9'000), document(9'000, 9'000)};
    BOOST_TEST(!pack_tiles(rows, 8'192).front().behind);
    const std::vector<Tile> all{{0, 9'000, 9'000, 9'000, every_key}};
    BOOST_TEST(!pack_tiles(all, 8'192).front().behind);
}

BOOST_AUTO_TEST_CASE(no_dimension_of_rows_has_stride_0) {
    // cuDNN refuses it in its backward pass, where the dimension has one element too.
    const at::Tensor heads = at::zeros({200, 3, 8});
    for (const std::vector<Tile>& tiles :
         {std::vector<Tile>{document(64, 100)}, {document(0, 50), document(50, 50)}}) {
        const TilePack pack = pack_tiles(tiles).front();
        const int64_t tokens = tiles.size() == 1 ? 1 : tiles[0].num_q;
        for (const at::Tensor& rows : {query_rows(heads, pack.group), key_rows(heads, pack.group)})
            BOOST_TEST(rows.stride(0) == tokens * heads.stride(0));
    }
}

BOOST_AUTO_TEST_CASE(a_row_of_a_million_tokens_has_strides_of_32_bits) {
    // Llama-8B's queries, keys and values: more than 2^31 elements from 349,526 tokens on.
    const int64_t tokens = 1 << 20;
    const at::Tensor heads = at::empty({tokens, 48, 128}, at::kMeta);
    const TilePack pack = pack_tiles(std::vector<Tile>{document(0, tokens)}).front();
    for (const int64_t stride : query_rows(heads, pack.group).strides())
        BOOST_TEST(stride <= std::numeric_limits<int32_t>::max());
}

BOOST_AUTO_TEST_CASE(what_does_not_follow_begins_a_new_call) {
    // The zigzag of one document over two ranks, at home: its first chunk meets itself, its last
    // one both.
    const std::vector<Tile> tiles{
        {0, 0, 8, 8, causal}, {8, 0, 8, 8, every_key}, {8, 8, 8, 8, causal}};
    const auto packs = pack_tiles(tiles);
    BOOST_REQUIRE(packs.size() == 3U);
    for (size_t i = 0; i < tiles.size(); ++i) BOOST_TEST((packs[i].group.first == tiles[i]));
    // Queries follow each other here, keys do not.
    const std::vector<Tile> apart{{0, 0, 4, 8, every_key}, {4, 16, 4, 2, every_key}};
    BOOST_TEST(pack_tiles(apart).size() == 2U);
    BOOST_TEST(pack_tiles({}).empty());
}

// A window does nothing to documents that are no longer than it.
BOOST_AUTO_TEST_CASE(documents_in_a_window_share_a_call) {
    const auto tiles_of = [](const std::vector<int64_t>& starts, int64_t tokens) {
        const SequencePartition partition(tokens, starts, 1, 1);
        return make_plan(partition, 0, {.window = 100}).steps.front();
    };
    // Lengths 50, 100, 101, 300, 1, 100.
    const std::vector<Tile> tiles = tiles_of({0, 50, 150, 251, 551, 552}, 652);
    BOOST_REQUIRE(tiles.size() == 6U);
    BOOST_TEST((tiles[1].band == causal));
    const ringshard::ops::Band window = tiles[2].band;
    BOOST_TEST((window == ringshard::ops::Band{.back = 99, .ahead = 0}));
    const auto packs = pack_tiles(tiles);
    BOOST_REQUIRE(packs.size() == 1U);
    BOOST_TEST((packs[0].group.first.band == window));
    BOOST_TEST(packs[0].q_starts == (std::vector<int32_t>{0, 50, 150, 251, 551, 552, 652}),
               boost::test_tools::per_element());
    BOOST_TEST((choose_kernel(packs[0], at::kBFloat16, 128, hopper) == AttentionKernel::flash));
    // Only causal documents stay causal, which cuDNN may take.
    BOOST_TEST((pack_tiles(tiles_of({0, 50}, 150)).front().group.first.band == causal));
    // A causal tile that is longer than the window has a call of its own, and so has one that is no
    // document.
    const std::vector<Tile> longer{{0, 0, 101, 101, causal}, {101, 101, 300, 300, window}};
    BOOST_TEST(pack_tiles(longer).size() == 2U);
    const std::vector<Tile> elsewhere{{0, 8, 50, 50, causal}, {50, 58, 300, 300, window}};
    BOOST_TEST(pack_tiles(elsewhere).size() == 2U);
    const std::vector<Tile> grows{
        {0, 0, 50, 50, causal}, {50, 50, 300, 300, window}, {350, 350, 101, 101, causal}};
    BOOST_TEST(pack_tiles(grows).size() == 2U);
    // A large one among them is alone, and the others keep the bands that they need.
    const ringshard::ops::Band wide{.back = 9999, .ahead = 0};
    const std::vector<Tile> large{{0, 0, 50, 50, causal},
                                  {50, 50, 20000, 20000, wide},
                                  {20050, 20050, 60, 60, causal},
                                  {20110, 20110, 70, 70, causal}};
    const auto apart = pack_tiles(large);
    BOOST_REQUIRE(apart.size() == 3U);
    BOOST_TEST((apart[0].group.first.band == causal && apart[2].group.first.band == causal));
    BOOST_TEST((apart[1].group.first == large[1]));
}

BOOST_AUTO_TEST_CASE(every_tile_is_in_one_pack) {
    std::vector<Tile> tiles;
    int64_t q = 0;
    for (const int64_t length : {7, 7, 7, 3, 12, 12, 1}) {
        tiles.push_back(document(q, length));
        q += length;
    }
    tiles.push_back({q, 0, 5, 30, false});
    int64_t pairs = 0;
    for (const TilePack& pack : pack_tiles(tiles))
        if (pack.is_ragged())
            for (size_t i = 0; i + 1 < pack.q_starts.size(); ++i)
                pairs += int64_t{pack.q_starts[i + 1] - pack.q_starts[i]} *
                         (pack.k_starts[i + 1] - pack.k_starts[i]);
        else
            pairs += pack.group.count * pack.group.first.num_q * pack.group.first.num_k;
    int64_t expected = 0;
    for (const Tile& tile : tiles) expected += tile.num_q * tile.num_k;
    BOOST_TEST(pairs == expected);
}

BOOST_AUTO_TEST_CASE(the_kernel_suits_type_shape_and_gpu) {
    using enum AttentionKernel;
    BOOST_TEST((kernel_for(8192, 8192, hopper) == cudnn));
    BOOST_TEST((kernel_for(8192, 8192, ampere) == flash));
    BOOST_TEST((kernel_for(8191, 8191, hopper) == flash));  // the length of a document
    BOOST_TEST((kernel_for(16'411, 16'411, hopper) == flash));
    BOOST_TEST((kernel_for(99'999, 99'999, hopper) == cudnn));  // worth a plan
    BOOST_TEST((kernel_for(8192 + 64, 8192 + 64, hopper) == cudnn));
    BOOST_TEST((kernel_for(8192, 4096, hopper) == cudnn));
    // What fills up cuDNN's last tile would be NaN where every query sees every key.
    BOOST_TEST((kernel_for(8192, 4096 + 64, hopper) == flash));
    BOOST_TEST((kernel_for(4096 + 64, 8192, hopper) == flash));
    BOOST_TEST((kernel_for(99'999, 199'998, hopper) == flash));
    BOOST_TEST((kernel_for(8192, 8192, {9, true}) == flash));
    BOOST_TEST((kernel_for(8192, 8192, hopper, at::kFloat) == products));
    BOOST_TEST((kernel_for(8192, 8192, hopper, at::kBFloat16, 100) == products));
    BOOST_TEST((kernel_for(8192, 8192, hopper, at::kBFloat16, 256) == flash));
    // Qwen2.5 has two or four key heads.
    const TilePack row = pack_tiles(std::vector<Tile>{document(0, 8192)}).front();
    BOOST_TEST((choose_kernel(row, at::kBFloat16, {128, {}, 8}, blackwell) == cudnn));
    BOOST_TEST((choose_kernel(row, at::kBFloat16, {128, {}, 4}, blackwell) == flash));
    BOOST_TEST((choose_kernel(row, at::kBFloat16, {128, {}, 4}, hopper) == cudnn));
    const std::vector<Tile> ragged{document(0, 64), document(64, 128)};
    BOOST_TEST((choose_kernel(pack_tiles(ragged).front(), at::kBFloat16, 128, hopper) == flash));
    BOOST_TEST(to_text(flash) == "FlashAttention-2");
}
