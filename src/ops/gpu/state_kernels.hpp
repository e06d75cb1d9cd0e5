#pragma once

#include "kernels.hpp"

// The kernels of gated delta nets.
namespace ringshard::ops::gpu {

// A causal convolution of each column within stretches (ops/causal_conv.hpp). Stretch s
// is the rows [begins[s], begins[s + 1]).
struct CausalConv {
    NumberType type;
    const void* x;       // [rows, columns], whose rows lie x_row apart
    const void* before;  // [stretches, taps - 1, columns]: the rows before each stretch
    const void* weight;  // [columns, taps]
    const void* bias;    // [columns], or null
    void* y;             // [rows, columns]; unused in the backward pass
    const int64_t* stretch_of_row;
    const int64_t* begins;  // [stretches + 1]
    int64_t rows, columns, taps, stretches;
    int64_t x_row;
    bool has_silu;
};
struct CausalConvBackward {
    const float* dy;  // [rows, columns], whose rows lie dy_row apart
    float* d_sums;    // [rows, columns]: room
    float* dx;        // [rows, columns], whose rows lie dx_row apart
    float* d_before;  // as before
    float* d_weight;  // [num_conv_ranges(rows), columns, taps]: of each range of rows
    int64_t dy_row, dx_row;
};
int64_t num_conv_ranges(int64_t rows);
void causal_conv(const Queue& queue, const CausalConv& work);
void causal_conv_backward(const Queue& queue, const CausalConv& work,
                          const CausalConvBackward& gradient);

// States through the chunks of stretches, of which s has the chunks [chunk_begins[s],
// chunk_begins[s + 1]) (ops/delta_chunks.hpp). Forward, sign is -1:
//     new_values = values + sign reader state;  state' = whole state + added - sign writer^T
//     new_values
struct DeltaWalk {
    const float* reader;  // [chunks, heads, tokens, dk]
    const float* writer;  // [chunks, heads, tokens, dk]
    const float* whole;   // [chunks, heads, decays]: one, or one of each row of the state
    const float* values;  // [chunks, heads, tokens, columns]
    const float* added;   // [chunks, heads, dk, columns], or null
    float* states;        // [chunks, heads, dk, columns]: in which chunks begin
    float* new_values;    // as values
    float* last;          // [stretches, heads, dk, columns]: from the first to the last states
    const int64_t* chunk_begins;  // [stretches + 1]
    int64_t stretches, heads, tokens, dk, columns, decays;
    float sign;
    bool backwards;  // from the last chunk to the first
};
// tokens: a multiple of four. dk: at most the largest whose factors of 64 tokens lie beside the
// state in the 99 KiB that a block has on every GPU.
constexpr int64_t most_keys_of_walk = 136;
void delta_walk(const Queue& queue, const DeltaWalk& work);

// The same of a rule without a correction: state' = whole state + added.
struct AdditiveWalk {
    const float* whole;           // [chunks, heads]
    const float* added;           // [chunks, heads, size]
    float* states;                // [chunks, heads, size]
    float* last;                  // [stretches, heads, size]
    const int64_t* chunk_begins;  // [stretches + 1]
    int64_t stretches, heads, size;
    bool backwards;
};
void state_walk(const Queue& queue, const AdditiveWalk& work);

// inverse = (1 + below_diagonal)^-1, of matrices [count, size, size].
struct UnitTriangles {
    const float* below_diagonal;
    float* inverse;
    int64_t count, size;
};
void invert_unit_triangles(const Queue& queue, const UnitTriangles& work);

}  // namespace ringshard::ops::gpu
