#pragma once

#include "gemm_kernels.hpp"
#include "vector_products.hpp"

// A product of matrices in blocks, with the tiles of a class M (vector_products.hpp). A block of b
// is packed once and meets all blocks of a; a panel of it, of a tile's width, and a block of a stay
// in the processor's second cache while they meet. The order in which the terms of a number are
// added depends on the number of terms alone.
namespace ringshard::ops {
namespace {

constexpr int64_t block_steps = 512;  // Elements in the direction of the sum
constexpr int64_t block_columns = 1024;
constexpr int64_t block_rows = 240;
// Rows that meet a block of b before the next one is packed.
constexpr int64_t band_rows = 8 * block_rows;
// Rows that lie side by side in a packed block of a transposed matrix.
constexpr int64_t packed_rows = 48;

// The part of a product that a packed block of each matrix makes.
struct GemmBlock {
    int64_t row, rows;
    int64_t column, columns;
    int64_t term, terms;
    bool is_first, is_last;  // of the blocks of terms
};

template <class M, class T>
class Gemm {
public:
    using Element = typename M::Element;
    static constexpr int64_t panel = M::vectors * M::lanes;
    // Rows of a tile of one vector, which has as many sums as others.
    static constexpr int64_t tall_rows = M::rows * M::vectors;
    static_assert(packed_rows % tall_rows == 0 && block_rows % tall_rows == 0);
    static constexpr int64_t block_terms = block_steps * M::per_element;
    static constexpr int64_t memory_bytes =
        static_cast<int64_t>(sizeof(Element)) * block_steps * (block_columns + block_rows) +
        static_cast<int64_t>(sizeof(float)) * band_rows * block_columns;

    Gemm(const GemmTask<T>& task, void* memory)
        : task_(task),
          packed_b_(static_cast<Element*>(memory)),
          packed_a_(packed_b_ + block_steps * block_columns),
          band_(reinterpret_cast<float*>(packed_a_ + block_steps * block_rows)) {}

    void run() {
        for (int64_t row = 0; row < task_.rows; row += band_rows)
            for (int64_t column = 0; column < task_.columns; column += block_columns)
                for (int64_t term = 0; term < task_.terms; term += block_terms)
                    multiply_band({row, least(band_rows, task_.rows - row), column,
                                   least(block_columns, task_.columns - column), term,
                                   least(block_terms, task_.terms - term), term == 0,
                                   term + block_terms >= task_.terms});
        if constexpr (Streams<M>) M::finish_streams();
    }

private:
    struct Place {
        float* data;
        int64_t stride;
    };
    struct TileRows {
        int64_t first;
        int64_t count;
    };

    void multiply_band(GemmBlock block) {
        const Right<M> right = pack_b(block);
        const int64_t first = block.row;
        const int64_t end = block.row + block.rows;
        for (; block.row < end; block.row += block_rows) {
            block.rows = least(block_rows, end - block.row);
            const Left<Element> left = left_of(block);
            for (int64_t column = 0; column < right.width; column += panel)
                for (int64_t row = 0, rows = 0; row < block.rows; row += rows) {
                    rows = rows_of_tile(right.width - column, block.rows - row);
                    multiply_one_tile(block, row_of(left, block, row), right, {row, rows}, column,
                                      band_ + (block.row - first + row) * block_columns + column);
                }
        }
    }

    static int64_t rows_of_tile(int64_t width, int64_t rows) {
        return width == M::lanes && rows >= tall_rows ? tall_rows : least(M::rows, rows);
    }

    Right<M> pack_b(const GemmBlock& block) {
        const auto& [data, stride, is_transposed] = task_.b;
        const int64_t steps = elements_of<M>(block.terms);
        if (is_transposed) {
            pack_columns<M>(packed_b_, data + block.column * stride + block.term, stride,
                            block.columns, block.terms);
            return {packed_b_, rounded_up(block.columns, M::lanes), steps};
        }
        pack_rows<M>(packed_b_, data + block.term * stride + block.column, stride, block.terms,
                     block.columns);
        return {packed_b_, rounded_up(block.columns, 16), steps};
    }

    // Rows are read where they lie if they consist of whole Elements.
    Left<Element> left_of(const GemmBlock& block) {
        const auto& [data, stride, is_transposed] = task_.a;
        if (is_transposed) {
            pack_transposed_a(block);
            return {packed_a_, 1, packed_rows};
        }
        const T* const first = data + block.row * stride + block.term;
        if constexpr (sizeof(Element) == M::per_element * sizeof(T))
            if (stride % M::per_element == 0 && block.terms % M::per_element == 0 &&
                reinterpret_cast<uintptr_t>(first) % sizeof(Element) == 0)
                return {reinterpret_cast<const Element*>(first), stride / M::per_element, 1};
        pack_left<M>(packed_a_, first, stride, block.rows, block.terms);
        return {packed_a_, elements_of<M>(block.terms), 1};
    }

    void pack_transposed_a(const GemmBlock& block) {
        const auto& [data, stride, is_transposed] = task_.a;
        Element* into = packed_a_;
        for (int64_t row = 0; row < block.rows; row += packed_rows)
            for (int64_t term = 0; term < block.terms; term += M::per_element) {
                const bool has_next = term + M::per_element <= block.terms;
                M::pack_rows(into, data + (block.term + term) * stride + block.row + row,
                             has_next ? stride : 0, least(packed_rows, block.rows - row),
                             packed_rows);
                into += packed_rows;
            }
    }

    RINGSHARD_KERNEL Left<Element> row_of(Left<Element> left, const GemmBlock& block, int64_t row) {
        if (left.step == packed_rows)
            left.data +=
                row / packed_rows * packed_rows * elements_of<M>(block.terms) + row % packed_rows;
        else
            left.data += row * left.row;
        return left;
    }

    // Sums stand in the result if it is of fp32 and as wide as the tile, in the band if terms come
    // in several blocks, or else in memory of this function.
    void multiply_one_tile(const GemmBlock& block, const Left<Element>& left, const Right<M>& right,
                           TileRows of_tile, int64_t column, float* in_band) {
        const auto [row, rows] = of_tile;
        const int64_t width = least(panel, right.width - column);
        const int64_t columns = least(width, block.columns - column);
        const int64_t result = (block.row + row) * task_.result_stride + block.column + column;
        alignas(64) float tile[M::rows * panel];
        Place sums{tile, width};
        const bool is_in_place = task_.sums != nullptr && columns == width;
        if (is_in_place)
            sums = {task_.sums + result, task_.result_stride};
        else if (task_.sums == nullptr && !(block.is_first && block.is_last))
            sums = {in_band, block_columns};

        bool adds = !block.is_first || task_.adds;
        if (adds && task_.sums != nullptr && !is_in_place)
            copy(sums, {task_.sums + result, task_.result_stride}, rows, columns);
        if (block.is_first && task_.adds && task_.sums == nullptr)
            put(sums, {task_.rounded + result, task_.result_stride}, rows, columns);
        if (block.is_first && task_.bias != nullptr) {
            put(sums, {task_.bias + block.column + column, 0}, rows, columns);
            adds = true;
        }
        const Tile<M> multiply =
            rows == tall_rows ? multiply_tile<M, tall_rows, 1> : tile_of<M>(rows, width / M::lanes);
        TileEnd end = adds ? TileEnd::adds : TileEnd::overwrites;
        if (!adds && is_in_place && block.is_last && streams(sums)) end = TileEnd::streams;
        multiply(left, right.data + column * right.all_steps, width, right.all_steps, sums.data,
                 sums.stride, end);
        if (task_.sums != nullptr && !is_in_place)
            copy({task_.sums + result, task_.result_stride}, sums, rows, columns);
        if (task_.sums == nullptr && block.is_last)
            round(task_.rounded + result, sums, rows, columns);
    }

    // Returns true if a thread's result is too large to stay in the caches until it is read.
    bool streams(const Place& part) const {
        constexpr int64_t most_cached = int64_t{1} << 20;  // numbers
        return Streams<M> && task_.rows * task_.columns > most_cached &&
               reinterpret_cast<uintptr_t>(part.data) % 64 == 0 && part.stride % 16 == 0;
    }

    static void copy(Place into, Place from, int64_t rows, int64_t columns) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
                into.data[r * into.stride + c] = from.data[r * from.stride + c];
    }

    // Numbers of the task's type, for sums to begin with; a stride of 0 repeats a row.
    struct Stored {
        const T* data;
        int64_t stride;
    };
    static void put(Place into, Stored from, int64_t rows, int64_t columns) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
                into.data[r * into.stride + c] = M::number(from.data[r * from.stride + c]);
    }

    void round(T* into, Place from, int64_t rows, int64_t columns) {
        if constexpr (sizeof(T) == 2)
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < columns; c += M::lanes) {
                    const auto rounded = M::rounded(load<M>(from.data + r * from.stride + c));
                    T* const place = into + r * task_.result_stride + c;
                    if (c + M::lanes <= columns)
                        __builtin_memcpy(place, &rounded, sizeof rounded);
                    else
                        for (int64_t i = 0; c + i < columns; ++i) place[i] = rounded[i];
                }
    }

    const GemmTask<T>& task_;
    Element* packed_b_;
    Element* packed_a_;
    float* band_;
};

template <class M, class T>
void multiply_matrices(const GemmTask<T>& task, void* memory) {
    Gemm<M, T>(task, memory).run();
}

// OfBf16 multiplies pairs of bf16, or numbers that become fp32 when they are packed.
template <class OfFp32, class OfBf16>
constexpr GemmKernels gemm_kernels_of() {
    static_assert(Gemm<OfFp32, float>::memory_bytes == Gemm<OfBf16, uint16_t>::memory_bytes);
    return {Gemm<OfFp32, float>::memory_bytes, multiply_matrices<OfFp32, float>,
            multiply_matrices<OfBf16, uint16_t>, OfFp32::rows, Gemm<OfFp32, float>::panel};
}

}  // namespace
}  // namespace ringshard::ops
