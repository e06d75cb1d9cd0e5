#pragma once

#include "attention_tiles.hpp"

// Attention over blocks of keys by tiles of AMX. A softmax over the blocks so far is corrected when
// a score comes that is greater by far.
namespace ringshard::ops {
namespace {

struct TileForwardMemory {
    static constexpr int64_t block_keys = 128;
    static constexpr int64_t strip_queries = 32;  // whose scores leave the first cache room

    TileForwardMemory(void* begin, int64_t group, int64_t count, int64_t width)
        : depth(rounded_up(width, tile_panel)), rows(rounded_up(count, strip_queries)) {
        Memory memory(begin);
        q = memory.take<uint16_t>(group * rows * depth);
        k = memory.take<uint16_t>(block_keys * depth);
        v = memory.take<uint16_t>(block_keys * depth);
        out = memory.take<float>(group * rows * depth);
        bases = memory.take<float>(group * rows);
        sums = memory.take<float>(group * rows);
        scores = memory.take<float>(block_keys * strip_queries);
        weights = memory.take<uint16_t>(block_keys * strip_queries);
        visible = memory.take<uint64_t>(block_keys);
        bytes = memory.used();
    }
    int64_t depth;
    int64_t rows;
    uint16_t* q;    // [group], right panels of queries
    uint16_t* k;    // [block_keys, depth]
    uint16_t* v;    // left panels of the head's columns
    float* out;     // [group, depth, rows], of the weights so far
    float* bases;   // [group, rows], which scores times log2 e have less in exponents
    float* sums;    // [group, rows], of exponentials
    float* scores;  // [block_keys, strip_queries]
    uint16_t* weights;
    uint64_t* visible;  // queries of a strip for each key
    int64_t bytes;
};

template <class M>
class TileForward {
    static constexpr int64_t block_keys = TileForwardMemory::block_keys;
    static constexpr int64_t strip_queries = TileForwardMemory::strip_queries;
    using Float = typename M::Float;

public:
    TileForward(const AttentionTask<uint16_t>& task, void* memory)
        : task_(task), memory_(memory, task.group, task.count, task.width) {}

    void run(const AttentionSums& result) const {
        const int64_t rows = task_.group * memory_.rows;
        for (int64_t h = 0; h < task_.group; ++h)
            pack_panels<TileKind::right, false>(
                memory_.q + h * memory_.rows * memory_.depth,
                {task_.q.data + h * task_.q.head + task_.first * task_.q.token, task_.q.token,
                 task_.count, task_.width},
                memory_.rows, memory_.depth);
        for (int64_t i = 0; i < rows; ++i) {
            memory_.bases[i] = minus_infinity;
            memory_.sums[i] = 0;
        }
        for (int64_t i = 0; i < rows * memory_.depth; ++i) memory_.out[i] = 0;
        const int64_t seen = end_of_keys(task_);
        for (int64_t key = first_key(task_); key < seen; key += block_keys)
            do_keys(key, least(block_keys, seen - key));
        for (int64_t h = 0; h < task_.group; ++h) finish(h, result);
    }

private:
    // A base stays while no weight is above 2 to this power: to correct sums takes longer.
    static constexpr float farthest_exponent = 8;

    void do_keys(int64_t key, int64_t keys) const {
        copy_rows(memory_.k, block_keys, memory_.depth,
                  {task_.k.data + key * task_.k.token, task_.k.token, keys, task_.width});
        pack_panels<TileKind::left, true>(
            memory_.v, {task_.v.data + key * task_.v.token, task_.v.token, keys, task_.width},
            memory_.depth, block_keys);
        const int64_t end = end_of_rows(task_, key, keys);
        const int64_t begin = first_row(task_, key) / strip_queries * strip_queries;
        for (int64_t h = 0; h < task_.group; ++h)
            for (int64_t query = begin; query < end; query += strip_queries)
                do_strip(h * memory_.rows, {key, keys, query, strip_queries});
    }

    void do_strip(int64_t row, const ScoreBlock& block) const {
        const bool hides = !sees_all(task_, block, block_keys);
        // Keys that no query of the strip sees are left out; so are those that do not exist.
        const int64_t last = task_.first + least(task_.count, block.query + block.queries) - 1;
        const int64_t seen = least(block.keys, last + task_.ahead + 1 - block.key);
        const int64_t keys = rounded_up(seen, tile_terms);
        if (hides) find_visible(memory_.visible, task_, block, keys);
        row += block.query;
        multiply_keys(memory_.scores, memory_.k, memory_.q + row * memory_.depth, memory_.depth,
                      keys, block.queries);
        if (task_.cap > 0) cap_scores<M>(task_, memory_.scores, keys * strip_queries);
        for (int64_t q = 0; q < block.queries; q += M::lanes)
            if (hides)
                weigh<true>(row + q, keys, q);
            else
                weigh<false>(row + q, keys, q);
        float* const out = out_of(row);
        for (int64_t c = 0; c < memory_.depth; c += tile_panel)
            for (int64_t q = 0; q < block.queries; q += tile_panel)
                multiply_tiles(left_panel(memory_.v + c * block_keys),
                               memory_.weights + q * block_keys, keys / tile_terms,
                               {out + c * memory_.rows + q, memory_.rows}, true);
    }

    // Rows of all heads -> the column of a query in the sums of its head.
    float* out_of(int64_t row) const {
        return memory_.out + row / memory_.rows * memory_.rows * memory_.depth + row % memory_.rows;
    }

    // A score of 16 queries from number `q` of the strip on.
    template <bool hides>
    RINGSHARD_KERNEL Float score(float scale, int64_t key, int64_t q) const {
        const Float score = load<M>(memory_.scores + key * strip_queries + q) * scale;
        if constexpr (!hides) return score;
        const auto sees = static_cast<__mmask16>(memory_.visible[key] >> q);
        return _mm512_mask_blend_ps(sees, spread<M>(minus_infinity), score);
    }

    template <bool hides>
    RINGSHARD_KERNEL Float greatest_score(Float most, float scale, int64_t keys, int64_t q) const {
        Float others[4] = {most, most, most, most};
        for (int64_t key = 0; key < keys; key += 4)
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i)
                others[i] = greater<M>(others[i], score<hides>(scale, key + i, q));
        return greater<M>(greater<M>(others[0], others[1]), greater<M>(others[2], others[3]));
    }

    // The weights of 16 queries, and the sums they have so far.
    template <bool hides>
    void weigh(int64_t row, int64_t keys, int64_t q) const {
        const float scale = (task_.cap > 0 ? 1.0F : task_.scale) * log2_of_e;
        const Float before = load<M>(memory_.bases + row);
        const Float most = greatest_score<hides>(before, scale, keys, q);
        const Float now = most - before > farthest_exponent ? most : before;
        const Float base = now == minus_infinity ? Float{} : now;
        Float added{};
        for (int64_t key = 0; key < keys; key += 2) {
            const Float even = power_of_2(score<hides>(scale, key, q) - base);
            const Float odd = power_of_2(score<hides>(scale, key + 1, q) - base);
            added += even + odd;
            store_pair(memory_.weights + place_of_pair(block_keys, key, q), even, odd);
        }
        const Float factor = power_of_2(before - base);
        put<M>(memory_.sums + row, load<M>(memory_.sums + row) * factor + added);
        put<M>(memory_.bases + row, now);
        if (_mm512_cmpneq_ps_mask(now, before) != 0) scale_out(row, factor);
    }

    void scale_out(int64_t row, Float factor) const {
        float* const out = out_of(row);
        for (int64_t c = 0; c < memory_.depth; ++c)
            put<M>(out + c * memory_.rows, load<M>(out + c * memory_.rows) * factor);
    }

    void finish(int64_t h, const AttentionSums& result) const {
        const int64_t first = h * memory_.rows;
        for (int64_t r = 0; r < memory_.rows; r += M::lanes) {
            const Float sum = load<M>(memory_.sums + first + r);
            scale_out(first + r, sum == 0.0F ? Float{} : 1.0F / sum);
        }
        for (int64_t r = 0; r < task_.count; ++r)
            result.lse[h * task_.count + r] =
                memory_.bases[first + r] * log_of_2 + __builtin_logf(memory_.sums[first + r]);
        const int64_t wide = padded_width(task_.width);
        turn_sums<M>(result.out + h * task_.count * wide, task_.count, wide,
                     memory_.out + first * memory_.depth, memory_.rows);
    }

    const AttentionTask<uint16_t>& task_;
    const TileForwardMemory memory_;
};

template <class M>
void forward_by_tiles(const AttentionTask<uint16_t>& task, const AttentionSums& result,
                      void* memory) {
    const Tiles tiles;
    TileForward<M>(task, memory).run(result);
}

inline int64_t tile_forward_bytes(int64_t group, int64_t count, int64_t width) {
    return TileForwardMemory(nullptr, group, count, width).bytes;
}

}  // namespace
}  // namespace ringshard::ops
