#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "decayed_products.hpp"
#include "ringshard/ops/delta_rule.hpp"

// Stretches in chunks of 64 tokens, of some heads: the tensors that both passes of the gated delta
// rule share.
//
// With G the sums of g within a chunk, and <x, k>_ij the sum of x_i k_j e^(G_i - G_j) over the
// elements of a key for i >= j, the tokens of a chunk that begins in state S hand it on as follows:
//     L = beta_i <k, k>_ij for i > j;  T = (1 + L)^-1;  U = T (beta v);  W = T (beta e^G k)
//     V = U - W S;  S' = e^(G_last) S + (e^(G_last - G) k)^T V
//     P = <q, k>;  o = (e^G q) S + P V
// Tokens that fill up a chunk have g = beta = 0: they change no state. The additive rule has T = 1
// and W = 0.
namespace ringshard::ops {

// The places of tokens in the chunks of stretches.
class ChunkLayout {
public:
    // `tokens` is the number of rows, `like` a tensor on their device.
    ChunkLayout(std::span<const Stretch> stretches, int64_t tokens, const at::Tensor& like);

    struct Chunks {
        int64_t begin;
        int64_t end;
    };
    int64_t size() const { return num_chunks_; }
    const std::vector<Chunks>& stretches() const { return stretches_; }  // of each

    // [t, ...] -> [chunks, 64, ...], fp32.
    at::Tensor in_chunks(const at::Tensor& rows) const;
    // The same, with 0 where a token fills up.
    at::Tensor in_chunks_filled(const at::Tensor& rows) const;
    // Writes [chunks, 64, ...] into the rows, of which every one is in a stretch.
    void write_rows(const at::Tensor& chunks, const at::Tensor& rows) const;

private:
    int64_t num_chunks_ = 0;
    std::vector<Chunks> stretches_;
    at::Tensor row_of_place_;  // [chunks * 64]; undefined: the place itself
    at::Tensor is_token_;      // [chunks, 64] fp32: 1, or 0 where a token fills up
    at::Tensor place_of_row_;  // [t]; -1 outside of stretches
};

// True if a GPU computes, or meta tensors stand for those of one.
inline bool is_of_gpu(const DeltaHeads& heads) {
    return heads.k.is_cuda() || (heads.k.is_meta() && heads.planned == c10::DeviceType::CUDA);
}

// Chunks that are computed together: on the CPU few enough that their intermediate results stay in
// the cache, on a GPU enough for all of its processors.
inline constexpr int64_t segment_chunks = 16;
inline constexpr int64_t gpu_segment_chunks = 64;

// A part of the stretches, in their order: rows [begin, begin + rows), of neighbouring stretches.
struct Segment {
    int64_t begin;
    int64_t rows;
    int64_t first_stretch;
    int64_t num_stretches;
    ChunkLayout layout;  // of its rows
};
std::vector<Segment> segments_of(std::span<const Stretch> stretches, const DeltaHeads& heads);
// Views of its rows, and of the states of its stretches.
DeltaHeads rows_of(const DeltaHeads& all, const Segment& segment);
inline at::Tensor rows_of(const at::Tensor& all, const Segment& segment) {
    return all.narrow(0, segment.begin, segment.rows);
}
inline at::Tensor states_of(const at::Tensor& all, const Segment& segment) {
    return all.narrow(0, segment.first_stretch, segment.num_stretches);
}

// Key heads [first, first + number) and the value heads that read with them.
struct HeadSpan {
    int64_t first;
    int64_t number;
};
DeltaHeads heads_of(const DeltaHeads& all, const HeadSpan& span);

// Rows of length 1, and their factors; with the additive rule the rows as they are.
struct Unit {
    at::Tensor rows;
    at::Tensor inverse_length;
};

// A dimension of chunks, one of key heads, one of the value heads of each, then the matrix.
struct DeltaChunks {
    DeltaChunks(const DeltaHeads& heads, const ChunkLayout& layout);

    Unit k;           // [n, kh, 1, 64, dk]
    at::Tensor v;     // [n, kh, r, 64, dv]
    at::Tensor beta;  // [n, kh, r, 64, 1]
    // c columns: one, or dk where each row of a state has its decay.
    at::Tensor growth;  // [n, kh, r, 64, c]: e^G
    at::Tensor rest;    // [n, kh, r, 64, c]: e^(G_last - G)
    at::Tensor whole;   // [n, kh, r, c, 1]: e^(G_last)
    std::shared_ptr<const DecayedProducts> products;
    // Only with the delta rule:
    at::Tensor overlaps;  // [n, kh, r, 64, 64]: <k, k>
    at::Tensor solver;    // [n, kh, r, 64, 64]: T
    at::Tensor step;      // [n, kh, r, 64, c]: beta e^G
    at::Tensor w;         // [n, kh, r, 64, dk]
    // With both rules:
    at::Tensor u;        // [n, kh, r, 64, dv]
    at::Tensor written;  // [n, kh, r, 64, dk]: e^(G_last - G) k
};
Unit chunked_queries(const DeltaHeads& heads, const ChunkLayout& layout);
// [t, heads, d] -> [n, kh, r, 64, d].
at::Tensor by_head(const at::Tensor& chunks, int64_t key_heads);
// Back: [n, kh, r, 64, d] -> [n, 64, heads, d].
at::Tensor by_token(const at::Tensor& heads);

// Matrices that say how a state goes from chunk to chunk, one after the other:
//     V = values + sign reader S;  S' = whole S + added - sign writer^T V
struct WalkSteps {
    at::Tensor reader;   // [n, heads, 64, dk]
    at::Tensor writer;   // [n, heads, 64, dk]
    at::Tensor whole;    // [n, heads, 1 or dk, 1]
    at::Tensor values;   // [n, heads, 64, c]
    at::Tensor added{};  // [n, heads, dk, c], or undefined
    at::Tensor first;    // [stretches, heads, dk, c]
    std::span<const ChunkLayout::Chunks> stretches;
    bool is_backwards;  // from the last chunk of each stretch to its first, with sign 1; else -1
};
// The states through the chunks.
struct Walk {
    at::Tensor
        states;  // [n, heads, dk, c]: in which each chunk begins, or forward in which it ends
    at::Tensor values;  // [n, heads, 64, c]: V, or its gradient
    at::Tensor last;    // [stretches, heads, dk, c]: at the end of the walk
};
Walk delta_walk(const WalkSteps& steps);

// The same of the additive rule: S' = whole S + added.
struct StateSteps {
    at::Tensor whole;  // [n, heads, 1, 1]
    at::Tensor added;  // [n, heads, dk, c]
    at::Tensor first;  // [stretches, heads, dk, c]
    std::span<const ChunkLayout::Chunks> stretches;
    bool is_backwards;
};
struct StateWalk {
    at::Tensor states;
    at::Tensor last;
};
StateWalk state_walk(const StateSteps& steps);
// Returns (1 + L)^-1 of L [..., 64, 64], whose diagonal, and all above it, is 0.
at::Tensor invert_unit_triangles(const at::Tensor& below_diagonal);

// From the first chunk of each stretch to its last. values [n, heads, 64, c]: U.
Walk walk(const DeltaChunks& chunks, const ChunkLayout& layout, const at::Tensor& values,
          const at::Tensor& first_state);
// Gradients, from the last chunk to the first. d_values: without what comes through the states;
// d_reads [n, heads, dk, c]: what the reads of a chunk add to the gradient of its state.
Walk walk_back(const DeltaChunks& chunks, const ChunkLayout& layout, const at::Tensor& d_values,
               const at::Tensor& d_reads, const at::Tensor& d_last_state);

}  // namespace ringshard::ops
