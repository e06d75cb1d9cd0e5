#pragma once

#include <cstdint>

// Attention of some queries to keys that come in blocks, for the query heads that share one key
// head. One table of kernels for each kind of processor; each is compiled with the instructions of
// that kind in a file of its own. So those files, and this header, use nothing that another file
// may also compile: no inline function of a library.
// Dimensions: t tokens, d head_dim, w head_dim rounded up to `padded_width`.
namespace ringshard::ops {

// Rows [t, d] of several heads inside a larger tensor; strides in elements.
template <class T>
struct HeadRows {
    T* data;
    int64_t token;  // from one token's row to that of the next
    int64_t head;   // from one head to the next
};

// bf16 as its 16 bits.
template <class T>
struct AttentionTask {
    int64_t group;  // query heads of the key head
    int64_t first;  // query
    int64_t count;  // queries
    int64_t keys;
    int64_t width;  // d
    int64_t back;   // query i sees the keys from i - back to i + ahead
    int64_t ahead;
    float scale;  // of the scores
    float cap;    // of the scores; 0: none
    HeadRows<const T> q;
    HeadRows<const T> k;
    HeadRows<const T> v;
};

// Rows are heads, then queries of the task: [group, count, w].
struct AttentionSums {
    float* out;  // of unit weight
    float* lse;  // [group, count]: log of the sum of exponentials
};

struct SumRows {
    float* data;
    int64_t stride;
};

template <class T>
struct AttentionGradientTask {
    AttentionTask<T> forward;
    HeadRows<const T> d_out;
    const float* lse;    // [group, count], over all keys there are
    const float* delta;  // [group, count]: d_out times out
    float* dq;           // [group, count, w]; written
    SumRows dk;          // [keys, w]; added to
    SumRows dv;
};

struct AttentionKernels {
    // Bytes of `memory` that one call needs, from an address that 64 divides.
    int64_t (*forward_bytes)(int64_t group, int64_t count, int64_t width);
    int64_t (*backward_bytes)(int64_t group, int64_t count, int64_t width);
    void (*forward_fp32)(const AttentionTask<float>&, const AttentionSums&, void* memory);
    void (*forward_bf16)(const AttentionTask<uint16_t>&, const AttentionSums&, void* memory);
    void (*backward_fp32)(const AttentionGradientTask<float>&, void* memory);
    void (*backward_bf16)(const AttentionGradientTask<uint16_t>&, void* memory);
};

// Columns of sums are a multiple of 16 on every processor.
[[gnu::always_inline]] constexpr int64_t padded_width(int64_t width) {
    return (width + 15) / 16 * 16;
}

// Queries of each head that one task takes, in whole blocks of every kind of kernels: what belongs
// to them stays in the processor's second cache.
[[gnu::always_inline]] constexpr int64_t queries_of_task(int64_t group) {
    const int64_t fair = 512 / group / 64 * 64;
    return fair < 64 ? 64 : (fair > 256 ? 256 : fair);
}

}  // namespace ringshard::ops
