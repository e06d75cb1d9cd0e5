#include "compare.hpp"
#include "fp8_kernels.hpp"
#include "state_kernels.hpp"

using namespace ringshard::ops::gpu;

namespace ringshard::test {

namespace {

constexpr Queue queue{.on_gpu = true, .stream = nullptr};
constexpr int64_t rows = int64_t{1} << 20;

// Work without memory, which is launched and does not run.
template <class Work>
Work of_rows(NumberType type, int64_t width) {
    Work work{};
    work.type = type;
    work.rows = rows;
    work.width = width;
    return work;
}

void norms(NumberType type, int64_t width) {
    const auto norm = of_rows<RmsNorm>(type, width);
    rms_norm(queue, norm);
    rms_norm_again(queue, norm);
    rms_norm_backward(queue, of_rows<RmsNormBackward>(type, width));
    add_rows(queue, nullptr, nullptr, num_row_ranges(rows, width), width);
    HeadNorm of_heads{};
    of_heads.type = type;
    of_heads.tokens = rows;
    of_heads.count = 1;
    of_heads.width = of_heads.row = width;
    head_norm(queue, of_heads);
    head_norm_backward(queue, of_heads);
}

void around_products(NumberType type, int64_t width) {
    const auto gates = of_rows<SwiGlu>(type, width);
    swiglu(queue, gates);
    swiglu_backward(queue, gates);
    EmbeddingBackward embedding{};
    embedding.type = type;
    embedding.tokens = rows;
    embedding.width = width;
    embedding_backward(queue, embedding);
    CrossEntropy loss{};
    loss.type = type;
    loss.tokens = rows;
    loss.vocabulary = 32 * width;
    cross_entropy(queue, loss);
}

void quantize(NumberType type, int64_t width) {
    quantize_rows(queue, of_rows<Fp8Rows>(type, width));
    constexpr int64_t sizes_of_columns = 16;
    if (width % sizes_of_columns != 0) return;
    const auto columns = of_rows<Fp8Columns>(type, width);
    quantize_columns(queue, columns);
    quantize_columns_alike(queue, columns);
}

// As many heads as a width of 16,384 may have, and the largest states.
void mix(NumberType type, int64_t width) {
    CausalConv convolution{};
    convolution.type = type;
    convolution.rows = rows;
    convolution.columns = convolution.x_row = width;
    convolution.taps = 4;
    convolution.stretches = 1;
    causal_conv(queue, convolution);
    causal_conv_backward(queue, convolution, {});
    constexpr int64_t tokens_of_chunk = 64;
    DeltaWalk walk{};
    walk.stretches = 1;
    walk.heads = width;
    walk.tokens = tokens_of_chunk;
    walk.dk = most_keys_of_walk;
    walk.columns = 256;
    delta_walk(queue, walk);
    UnitTriangles triangles{};
    triangles.count = rows / tokens_of_chunk * width;
    triangles.size = tokens_of_chunk;
    invert_unit_triangles(queue, triangles);
}

}  // namespace

void launches_of_all_widths() {
    constexpr int64_t widest = 16384;
    for (const NumberType type : {NumberType::fp32, NumberType::bf16})
        for (int64_t width = 8; width <= widest; width += 8)
            for (const int64_t columns : {width - 1, width}) {
                norms(type, columns);
                around_products(type, columns);
                quantize(type, columns);
                mix(type, columns);
            }
}

}  // namespace ringshard::test
