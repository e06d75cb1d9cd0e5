#pragma once

#include <cstdint>

#include "ringshard/ops/update_rules.hpp"

// The kernels of the GPU, on plain pointers: so they are compiled without LibTorch. A kernel's work
// is cut over teams of threads (team.cuh). Rows are dense and one after the other; all sizes and
// places are 64 bits wide.
namespace ringshard::ops::gpu {

enum class NumberType { fp32, bf16 };

// Runs teams on a stream of the current GPU or, for tests, one after the other on the host.
struct Queue {
    bool on_gpu = false;
    void* stream = nullptr;  // cudaStream_t
};

struct RmsNorm {
    NumberType type;
    const void* x;  // [rows, width]
    const void* weight;
    void* y;
    float* inverse_rms;  // [rows]
    int64_t rows;
    int64_t width;
    float epsilon;
    float offset;  // is added to the weights
    // [rows, width], or null: norms branch * factor + x, and writes that sum over branch.
    void* branch = nullptr;
    float factor = 1;
};
void rms_norm(const Queue& queue, const RmsNorm& work);
void rms_norm_again(const Queue& queue, const RmsNorm& work);  // reads inverse_rms

// Weight gradients are summed over equal ranges of rows, and then over the ranges in order: the
// same to the bit on every GPU.
int64_t num_row_ranges(int64_t rows, int64_t width);

struct RmsNormBackward {
    NumberType type;
    void* dy;  // [rows, width]
    const void* x;
    const void* weight;
    const float* inverse_rms;  // [rows]
    void* dx;                  // is added to
    float* d_weight;           // [num_row_ranges(rows, width), width]: of each range
    int64_t rows;
    int64_t width;
    float offset;
    bool makes_normed = false;  // writes the normed rows over dy
};
void rms_norm_backward(const Queue& queue, const RmsNormBackward& work);

// Heads [tokens, count, width], of which those of a token lie `row` elements after those of the one
// before.
struct HeadNorm {
    NumberType type;
    void* heads;   // becomes normed; in the backward pass the gradient of the normed heads, which
                   // becomes that of the heads before the norm
    void* before;  // [tokens, count, width], dense: the heads before the norm
    const void* weight;
    float* inverse_rms;  // [tokens, count]
    float* d_weight;     // [num_head_ranges(tokens * count, width), width], in the backward pass
    int64_t tokens;
    int64_t count;
    int64_t width;
    int64_t row;
    float epsilon;
    float offset;
};
int64_t num_head_ranges(int64_t heads, int64_t width);
void head_norm(const Queue& queue, const HeadNorm& work);
void head_norm_backward(const Queue& queue, const HeadNorm& work);

// into [width] += every row of from [rows, width], in order.
void add_rows(const Queue& queue, float* into, const float* from, int64_t rows, int64_t width);

struct RopeTable {
    const int64_t* positions;          // [tokens]
    const float* inverse_frequencies;  // [half]
    float* cosine;                     // [tokens, half]
    float* sine;
    int64_t tokens;
    int64_t half;
    float scale;
};
void make_rope_table(const Queue& queue, const RopeTable& work);

struct Rope {
    NumberType type;
    void* heads;  // [tokens, row], the first num_heads heads of every row
    const float* cosine;
    const float* sine;
    int64_t tokens;
    int64_t num_heads;
    int64_t half;
    int64_t head_dim;
    bool is_interleaved;
    int64_t row;
    float sign;  // -1 turns back
};
void rope(const Queue& queue, const Rope& work);

// Gradients of heads [n, t, heads, head_dim] as an operator of attention returns them become rows
// of queries, keys and values: with a table, queries and keys are turned back.
struct HeadGradients {
    struct Part {
        const void* from;
        int64_t stride_n, stride_t, stride_h;
    };
    NumberType from_type;
    NumberType type;
    Part dq;
    Part dk;
    Part dv;
    void* into;           // [rows, (query_heads + 2 key_heads) head_dim]
    const float* cosine;  // [rows, head_dim / 2], or null
    const float* sine;
    float* sums;  // [num_token_ranges(work), a row]: of the rows of each range; or null
    int64_t n, t;
    int64_t query_heads, key_heads, head_dim;
    int64_t first_row;  // of token [0, 0], and how far that of [1, 0] is from it
    int64_t row_distance;
};
int64_t num_token_ranges(const HeadGradients& work);
// Returns false, and does nothing, if heads do not lie in whole packs.
bool put_head_gradients(const Queue& queue, const HeadGradients& work);

struct SwiGlu {
    NumberType type;
    void* gate_up;  // [rows, 2 width]
    void* product;  // [rows, width]
    int64_t rows;
    int64_t width;
    bool makes_product = true;
};
void swiglu(const Queue& queue, const SwiGlu& work);
void swiglu_backward(const Queue& queue,
                     const SwiGlu& work);  // writes gate_up over, and the product if it is made

// A team adds up to this many rows of one token; the sums of a token's teams are added in order.
constexpr int64_t rows_of_embedding_team = 256;

// Tokens in ascending order, and the place of each in the batch, equal ones in the order of the
// batch.
struct EmbeddingBackward {
    NumberType type;
    const void* dy;  // [tokens, width]
    const int64_t* sorted_tokens;
    const int64_t* places;
    float* d_table;  // [vocabulary, width], is added to
    float* partial;  // [ceil(tokens / rows_of_embedding_team), width]
    int64_t tokens;
    int64_t width;
    int64_t left_out;  // a token, or -1
};
void embedding_backward(const Queue& queue, const EmbeddingBackward& work);

struct CrossEntropy {
    NumberType type;
    void* logits;  // [tokens, vocabulary]
    const int64_t* targets;
    const float* weights;  // of the losses; null: 1 each
    float* token_stats;    // [tokens, 3]: loss, entropy, is the target the most likely one
    int64_t tokens;
    int64_t vocabulary;
    bool writes_gradient;  // over the logits
    float gradient_scale;
    bool times_probability;
    float smoothing;
};
void cross_entropy(const Queue& queue, const CrossEntropy& work);

constexpr int64_t elements_per_square = 16384;
// squares [ceil(count / elements_per_square)]: of each block the sum.
void sum_squares(const Queue& queue, const float* numbers, int64_t count, float* squares);

struct Update {
    float* weights;
    NumberType moment_type = NumberType::fp32;
    void* moments[most_moments] = {};
    const float* gradient;
    void* copy;  // bf16, or null
    int64_t count;
    int64_t first_place;
    uint32_t step;
};
void update(const Queue& queue, const Update& work, const UpdateRule& rule);

// The average of points, whose difference from the point of the step is the state.
struct ScheduleFree {
    float* weights;
    float* difference;
    float* second_moment;   // may be null
    const float* gradient;  // null: the copy is written and nothing else
    NumberType copy_type;
    void* copy;
    int64_t count;
    float gradient_scale;
    float decay;
    float second_keeps, second_takes;
    float root_scale;
    float epsilon;
    float step_size;
    float average;  // share of the point in it
    float ahead;    // share of the difference in the copy
};
void schedule_free(const Queue& queue, const ScheduleFree& work);

// A moment in 8 bits (ops/updates.hpp).
struct CodedMoment {
    uint8_t* codes;
    float* maxima;
    const float* values;
};
struct CodedUpdate {
    float* weights;
    CodedMoment moments[most_moments] = {};
    const float* gradient;
    void* copy;  // bf16, or null
    int64_t blocks;
};
void coded_update(const Queue& queue, const CodedUpdate& work, const UpdateRule& rule);

// Weights from four bits (ops/nf4.hpp).
struct DequantizeNf4 {
    NumberType type;
    void* into;
    const uint8_t* codes;
    const float* scales = nullptr;  // or, where they are nested:
    const uint8_t* scale_codes = nullptr;
    const float* nested_scales = nullptr;
    const float* mean = nullptr;
    int64_t count;
    float values[16] = {};
    float scale_values[256] = {};
};
void dequantize_nf4(const Queue& queue, const DequantizeNf4& work);

// Weights from eight bits (ops/int8.hpp).
struct DequantizeInt8 {
    NumberType type;
    void* into;           // [rows, width]
    const int8_t* codes;  // [rows, width]
    const float* scales;  // [rows]
    int64_t rows;
    int64_t width;
};
void dequantize_int8(const Queue& queue, const DequantizeInt8& work);

// Two results of attention over different keys become one. Rows of more_out are dense; so are the
// heads of out.
struct MergeAttention {
    NumberType type;  // of more_out
    float* out;       // [n, t, heads, width]
    float* lse;       // [n, t, heads]
    const void* more_out;
    const float* more_lse;
    int64_t n, t, heads, width;
    int64_t out_stride_n, out_stride_t;
    int64_t lse_stride_n, lse_stride_t;
    int64_t more_lse_stride_n, more_lse_stride_t, more_lse_stride_h;
};
void merge_attention(const Queue& queue, const MergeAttention& work);

}  // namespace ringshard::ops::gpu
