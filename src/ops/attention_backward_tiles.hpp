#pragma once

#include "attention_tiles.hpp"

// The gradients of attention over blocks of keys by tiles of AMX.
namespace ringshard::ops {
namespace {

struct TileBackwardMemory {
    static constexpr int64_t block_keys = 64;
    static constexpr int64_t strip_queries = longest_strip;

    TileBackwardMemory(void* begin, int64_t group, int64_t count, int64_t width)
        : depth(rounded_up(width, tile_panel)), rows(rounded_up(count, strip_queries)) {
        Memory memory(begin);
        q = memory.take<uint16_t>(group * rows * depth);
        d_out = memory.take<uint16_t>(group * rows * depth);
        q_columns = memory.take<uint16_t>(group * rows * depth);
        d_out_columns = memory.take<uint16_t>(group * rows * depth);
        dq = memory.take<float>(group * rows * depth);
        lse = memory.take<float>(group * rows);
        delta = memory.take<float>(group * rows);
        k = memory.take<uint16_t>(block_keys * depth);
        v = memory.take<uint16_t>(block_keys * depth);
        k_columns = memory.take<uint16_t>(block_keys * depth);
        dk = memory.take<float>(block_keys * depth);
        dv = memory.take<float>(block_keys * depth);
        scores = memory.take<float>(block_keys * strip_queries);
        d_weights = memory.take<float>(block_keys * strip_queries);
        weights = memory.take<uint16_t>(block_keys * strip_queries);
        d_scores = memory.take<uint16_t>(block_keys * strip_queries);
        d_score_pairs = memory.take<uint16_t>(block_keys * strip_queries);
        visible = memory.take<uint64_t>(block_keys);
        bytes = memory.used();
    }
    int64_t depth;
    int64_t rows;
    uint16_t* q;  // [group], right panels of queries
    uint16_t* d_out;
    uint16_t* q_columns;  // [group], right panels of the head's columns
    uint16_t* d_out_columns;
    float* dq;   // [group, depth, rows]
    float* lse;  // [group, rows], times log2 e
    float* delta;
    uint16_t* k;  // [block_keys, depth]
    uint16_t* v;
    uint16_t* k_columns;  // left panels of the head's columns
    float* dk;            // [block_keys, depth]
    float* dv;
    float* scores;  // [block_keys, strip_queries]
    float* d_weights;
    uint16_t* weights;
    uint16_t* d_scores;
    uint16_t* d_score_pairs;  // right panels of queries
    uint64_t* visible;        // queries of a strip for each key
    int64_t bytes;
};

template <class M>
class TileBackward {
    static constexpr int64_t block_keys = TileBackwardMemory::block_keys;
    static constexpr int64_t strip_queries = TileBackwardMemory::strip_queries;
    using Float = typename M::Float;

public:
    TileBackward(const AttentionGradientTask<uint16_t>& task, void* memory)
        : task_(task),
          forward_(task.forward),
          memory_(memory, forward_.group, forward_.count, forward_.width) {}

    void run() const {
        for (int64_t h = 0; h < forward_.group; ++h) take_head(h);
        const int64_t sums = forward_.group * memory_.rows * memory_.depth;
        for (int64_t i = 0; i < sums; ++i) memory_.dq[i] = 0;
        const int64_t seen = end_of_keys(forward_);
        for (int64_t key = first_key(forward_); key < seen; key += block_keys)
            do_keys(key, least(block_keys, seen - key));
        for (int64_t h = 0; h < forward_.group; ++h) finish(h);
    }

private:
    void take_head(int64_t h) const {
        const int64_t begin = h * memory_.rows * memory_.depth;
        const auto pack = [&](uint16_t* panels, uint16_t* columns,
                              const HeadRows<const uint16_t>& from) {
            const Lines lines{from.data + h * from.head + forward_.first * from.token, from.token,
                              forward_.count, forward_.width};
            pack_panels<TileKind::right, false>(panels + begin, lines, memory_.rows, memory_.depth);
            pack_panels<TileKind::right, true>(columns + begin, lines, memory_.depth, memory_.rows);
        };
        pack(memory_.q, memory_.q_columns, forward_.q);
        pack(memory_.d_out, memory_.d_out_columns, task_.d_out);
        for (int64_t r = 0; r < memory_.rows; ++r) {
            const bool is_there = r < forward_.count;
            memory_.lse[h * memory_.rows + r] =
                is_there ? task_.lse[h * forward_.count + r] * log2_of_e : 0;
            memory_.delta[h * memory_.rows + r] =
                is_there ? task_.delta[h * forward_.count + r] : 0;
        }
    }

    void do_keys(int64_t key, int64_t keys) const {
        const Lines k{forward_.k.data + key * forward_.k.token, forward_.k.token, keys,
                      forward_.width};
        copy_rows(memory_.k, block_keys, memory_.depth, k);
        copy_rows(
            memory_.v, block_keys, memory_.depth,
            {forward_.v.data + key * forward_.v.token, forward_.v.token, keys, forward_.width});
        pack_panels<TileKind::left, true>(memory_.k_columns, k, memory_.depth, block_keys);
        for (int64_t i = 0; i < block_keys * memory_.depth; ++i) memory_.dk[i] = memory_.dv[i] = 0;
        const int64_t end = end_of_rows(forward_, key, keys);
        const int64_t begin = first_row(forward_, key) / strip_queries * strip_queries;
        for (int64_t h = 0; h < forward_.group; ++h)
            for (int64_t query = begin; query < end; query += strip_queries)
                do_strip(h, {key, keys, query, strip_queries});
        add_rows(task_.dk, memory_.dk, key, keys);
        add_rows(task_.dv, memory_.dv, key, keys);
    }

    void do_strip(int64_t h, const ScoreBlock& block) const {
        const int64_t row = h * memory_.rows + block.query;
        multiply_keys(memory_.scores, memory_.k, memory_.q + row * memory_.depth, memory_.depth,
                      block_keys, strip_queries);
        multiply_keys(memory_.d_weights, memory_.v, memory_.d_out + row * memory_.depth,
                      memory_.depth, block_keys, strip_queries);
        const bool hides = !sees_all(forward_, block, block_keys);
        if (hides) find_visible(memory_.visible, forward_, block, block_keys);
        if (forward_.cap > 0) cap_scores<M>(forward_, memory_.scores, block_keys * strip_queries);
        for (int64_t q = 0; q < strip_queries; q += M::lanes)
            if (hides)
                write_gradients<true>(row + q, q);
            else
                write_gradients<false>(row + q, q);
        const int64_t head = h * memory_.rows * memory_.depth;
        add_strip(memory_.dv, memory_.weights, memory_.d_out_columns + head, block.query);
        add_strip(memory_.dk, memory_.d_scores, memory_.q_columns + head, block.query);
        for (int64_t c = 0; c < memory_.depth; c += tile_panel)
            for (int64_t q = 0; q < strip_queries; q += tile_panel)
                multiply_tiles(
                    left_panel(memory_.k_columns + c * block_keys),
                    memory_.d_score_pairs + q * block_keys, block_keys / tile_terms,
                    {memory_.dq + head + c * memory_.rows + block.query + q, memory_.rows}, true);
    }

    // With p = e^(scale * score - lse), the gradient of a score is scale * p * (d_p - delta).
    // Scores under a cap are whole: their gradient is that of the product, by the slope of the cap.
    struct Gradient {
        Float weight;
        Float of_score;
    };
    template <bool hides>
    RINGSHARD_KERNEL Gradient gradient(int64_t key, int64_t q, Float lse, Float delta) const {
        const int64_t place = key * strip_queries + q;
        const Float score = load<M>(memory_.scores + place);
        const float scale = (forward_.cap > 0 ? 1.0F : forward_.scale) * log2_of_e;
        Float weight = power_of_2(score * scale - lse);
        Float of_score = weight * forward_.scale * (load<M>(memory_.d_weights + place) - delta);
        if (forward_.cap > 0) {
            const Float part = score / forward_.cap;
            of_score *= 1.0F - part * part;
        }
        if constexpr (hides) {
            const auto sees = static_cast<__mmask16>(memory_.visible[key] >> q);
            weight = _mm512_maskz_mov_ps(sees, weight);
            of_score = _mm512_maskz_mov_ps(sees, of_score);
        }
        return {weight, of_score};
    }

    // Weights and gradients of scores of 16 queries: in rows of keys, and the latter in pairs too.
    template <bool hides>
    void write_gradients(int64_t row, int64_t q) const {
        const Float lse = load<M>(memory_.lse + row);
        const Float delta = load<M>(memory_.delta + row);
        for (int64_t key = 0; key < block_keys; key += 2) {
            const Gradient even = gradient<hides>(key, q, lse, delta);
            const Gradient odd = gradient<hides>(key + 1, q, lse, delta);
            const int64_t place = key * strip_queries + q;
            put_rounded(memory_.weights + place, even.weight);
            put_rounded(memory_.weights + place + strip_queries, odd.weight);
            put_rounded(memory_.d_scores + place, even.of_score);
            put_rounded(memory_.d_scores + place + strip_queries, odd.of_score);
            store_pair(memory_.d_score_pairs + place_of_pair(block_keys, key, q), even.of_score,
                       odd.of_score);
        }
    }
    static RINGSHARD_KERNEL void put_rounded(uint16_t* into, Float values) {
        const auto rounded = M::rounded(values);
        __builtin_memcpy(into, &rounded, sizeof rounded);
    }

    // sums [keys, depth] += rows [keys, strip] times the strip's part of `columns`.
    void add_strip(float* sums, const uint16_t* rows, const uint16_t* columns,
                   int64_t query) const {
        for (int64_t n = 0; n < block_keys; n += tile_panel)
            for (int64_t c = 0; c < memory_.depth; c += tile_panel)
                multiply_tiles(left_rows(rows + n * strip_queries, strip_queries),
                               columns + c * memory_.rows + query * tile_panel,
                               strip_queries / tile_terms,
                               {sums + n * memory_.depth + c, memory_.depth}, true);
    }

    void add_rows(const SumRows& into, const float* sums, int64_t key, int64_t keys) const {
        for (int64_t n = 0; n < keys; ++n)
            for (int64_t c = 0; c < padded_width(forward_.width); c += M::lanes) {
                float* const place = into.data + (key + n) * into.stride + c;
                put<M>(place, load<M>(place) + load<M>(sums + n * memory_.depth + c));
            }
    }

    void finish(int64_t h) const {
        const int64_t wide = padded_width(forward_.width);
        turn_sums<M>(task_.dq + h * forward_.count * wide, forward_.count, wide,
                     memory_.dq + h * memory_.rows * memory_.depth, memory_.rows);
    }

    const AttentionGradientTask<uint16_t>& task_;
    const AttentionTask<uint16_t>& forward_;
    const TileBackwardMemory memory_;
};

template <class M>
void backward_by_tiles(const AttentionGradientTask<uint16_t>& task, void* memory) {
    const Tiles tiles;
    TileBackward<M>(task, memory).run();
}

inline int64_t tile_backward_bytes(int64_t group, int64_t count, int64_t width) {
    return TileBackwardMemory(nullptr, group, count, width).bytes;
}

}  // namespace
}  // namespace ringshard::ops
