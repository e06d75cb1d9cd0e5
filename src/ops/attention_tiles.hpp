#pragma once

#include "attention_blocks.hpp"
#include "tile_products.hpp"

// What both passes of attention by tiles of AMX share. Scores stand as [keys, queries]: the lanes
// of a vector are queries, whose greatest scores, sums and gradients then need no sum over lanes,
// and weights leave the registers as the tiles of the next product. M is a class of vectors with
// numbers of fp32 (vector_products.hpp).
namespace ringshard::ops {
namespace {

// A strip of queries of one head, for which scores are made at once, has a bit of a word for each.
constexpr int64_t longest_strip = 64;

// Weights are powers of two: e^x = 2^(x log2 e), whose factor is a part of the scale of scores.
constexpr float log2_of_e = 1.44269504088896341F;
constexpr float log_of_2 = 0.693147180559945309F;

// 2^x to two units in the last place.
RINGSHARD_KERNEL VectorsOf16::Float power_of_2(VectorsOf16::Float x) {
    using Float = VectorsOf16::Float;
    const Float r =
        _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT);  // less the nearest whole number
    Float y = _mm512_set1_ps(1.3264727197e-3F);
    y = y * r + 9.6715126397e-3F;
    y = y * r + 5.5507337433e-2F;
    y = y * r + 2.4022242085e-1F;
    y = y * r + 6.9314697760e-1F;
    return _mm512_scalef_ps(y * r + 1.0F, x - r);
}

// Rows [count, width] -> [rows, depth], with zeros behind them.
inline void copy_rows(uint16_t* into, int64_t rows, int64_t depth, const Lines& from) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < depth; i += tile_terms) {
            const __mmask32 mask = r < from.lines ? first_of_32(from.length - i) : 0;
            _mm512_storeu_si512(into + r * depth + i,
                                _mm512_maskz_loadu_epi16(mask, from.data + r * from.stride + i));
        }
}

// Sums [width, stride] of queries, a column each -> rows [count, width].
template <class M>
void turn_sums(float* into, int64_t count, int64_t width, const float* sums, int64_t stride) {
    for (int64_t q = 0; q < count; q += M::lanes)
        for (int64_t c = 0; c < width; c += M::lanes) {
            typename M::Float square[M::lanes];
            for (int i = 0; i < M::lanes; ++i) square[i] = load<M>(sums + (c + i) * stride + q);
            transpose<M>(square);
            for (int i = 0; i < M::lanes && q + i < count; ++i)
                put<M>(into + (q + i) * width + c, square[i]);
        }
}

// The queries of the task that see a key, as numbers within the task.
struct SeeingQueries {
    int64_t begin;
    int64_t end;
};
template <class T>
RINGSHARD_KERNEL SeeingQueries queries_that_see(const AttentionTask<T>& task, int64_t key) {
    return {greatest(0, key - task.ahead - task.first),
            least(task.count, key + task.back + 1 - task.first)};
}

// Those of a strip of queries, a bit each.
RINGSHARD_KERNEL uint64_t strip_that_sees(const SeeingQueries& seeing, int64_t first_query) {
    const auto bits_below = [](int64_t end) {
        return end >= longest_strip ? ~uint64_t{0} : (uint64_t{1} << greatest(0, end)) - 1;
    };
    return bits_below(seeing.end - first_query) & ~bits_below(seeing.begin - first_query);
}

// Keys and queries of a block of scores: some keys of those that are packed, and a strip.
struct ScoreBlock {
    int64_t key, keys;  // keys: what there is, of at most as many as the block is long
    int64_t query;      // of the task
    int64_t queries;    // a multiple of 32
};

// Returns true if every query of the block sees every key, and there are as many as `most_keys`.
template <class T>
bool sees_all(const AttentionTask<T>& task, const ScoreBlock& block, int64_t most_keys) {
    const SeeingQueries first = queries_that_see(task, block.key);
    const SeeingQueries last = queries_that_see(task, block.key + block.keys - 1);
    return block.keys == most_keys && last.begin <= block.query &&
           first.end >= block.query + block.queries;
}

// Writes for each of `most_keys` keys which queries of the strip see it: of those behind the last
// key, none.
template <class T>
void find_visible(uint64_t* visible, const AttentionTask<T>& task, const ScoreBlock& block,
                  int64_t most_keys) {
    for (int64_t key = 0; key < most_keys; ++key)
        visible[key] = key < block.keys
                           ? strip_that_sees(queries_that_see(task, block.key + key), block.query)
                           : 0;
}

// Numbers of two keys, rounded to bf16 and side by side.
RINGSHARD_KERNEL void store_pair(uint16_t* place, VectorsOf16::Float even, VectorsOf16::Float odd) {
    const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
    _mm512_store_si512(place,
                       take_turns(rounded, _mm512_shuffle_i64x2(rounded, rounded, 0xee)).first);
}

// products [keys, queries] = keys [keys, depth] times queries, which are packed in panels.
inline void multiply_keys(float* products, const uint16_t* keys, const uint16_t* queries,
                          int64_t depth, int64_t num_keys, int64_t num_queries) {
    for (int64_t n = 0; n < num_keys; n += tile_panel)
        for (int64_t q = 0; q < num_queries; q += tile_panel)
            multiply_tiles(left_rows(keys + n * depth, depth), queries + q * depth,
                           depth / tile_terms, {products + n * num_queries + q, num_queries},
                           false);
}

// The place of a pair of keys in a right matrix of scores whose terms are keys: panels of 32
// queries, each with all keys.
RINGSHARD_KERNEL int64_t place_of_pair(int64_t most_keys, int64_t key, int64_t query) {
    return query / tile_panel * tile_panel * most_keys + key / tile_terms * 2 * tile_numbers +
           query % tile_panel / tile_side * tile_numbers + key % tile_terms / 2 * tile_terms +
           query % tile_side * 2;
}

}  // namespace
}  // namespace ringshard::ops
