#pragma once

#include <cstdint>

#include "vectors.hpp"

// Products of small matrices with vectors of one width, and the matrices packed for them. A file
// includes this once, with the flags of its processor, and gives a class M of that processor:
//   lanes        numbers of fp32 in a vector Float
//   vectors      Floats side by side in a tile of a product, of `rows` rows
//   Element      a number of fp32, or two neighbouring ones of bf16 in the direction of the sum
//   dot(sum, left, right)      sum + left * right, where left is one Element for all lanes
//   store_row(row, i, values)  writes numbers i... of a row of Elements
//   store_pair(place, even, odd)  where an Element holds two numbers
//   load_elements(numbers)     the Elements of the next numbers of a row, as a Float of their bits
//   rounded(values)            bf16, in Halves
// Everything is in an unnamed namespace: each such file has copies of its own.
namespace ringshard::ops {
namespace {

template <class M>
constexpr int64_t elements_of(int64_t numbers) {
    return (numbers + M::per_element - 1) / M::per_element;
}

// Rows of a left matrix: element k of row r is at r * row + k * step. Functions take a reference: a
// processor that copies it in memory first waits for the stores of the tile before.
template <class Element>
struct Left {
    const Element* data;
    int64_t row;
    int64_t step;
};

// The kernels M that can store past the caches: stream(place, values) and finish_streams().
template <class M>
concept Streams = requires(float* place, typename M::Float values) {
    M::stream(place, values);
};

// How a tile's sums reach memory. They are added at the end, since those there may come from far.
// Streamed rows begin at multiples of a vector's bytes.
enum class TileEnd { overwrites, adds, streams };

// c [rows, vectors of lanes] = the sum over `steps` of left times right.
template <class M, int rows, int vectors>
void multiply_tile(const Left<typename M::Element>& left, const typename M::Element* right,
                   int64_t right_step, int64_t steps, float* c, int64_t c_row, TileEnd end) {
    using Float = typename M::Float;
    Float sums[rows][vectors];
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[r][v] = Float{};
    if (end == TileEnd::adds)
        for (int r = 0; r < rows; ++r)
            for (int v = 0; v < vectors; ++v) __builtin_prefetch(c + r * c_row + v * M::lanes, 1);
    const typename M::Element* a = left.data;
    for (int64_t k = 0; k < steps; ++k) {
        typename M::Right b[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v)
            __builtin_memcpy(&b[v], right + v * M::lanes, sizeof b[v]);
#pragma GCC unroll 24
        for (int r = 0; r < rows; ++r) {
            const typename M::Right factor = M::spread_element(a[r * left.row]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sums[r][v] = M::dot(sums[r][v], factor, b[v]);
        }
        a += left.step;
        right += right_step;
    }
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            float* const place = c + r * c_row + v * M::lanes;
            if constexpr (Streams<M>)
                if (end == TileEnd::streams) {
                    M::stream(place, sums[r][v]);
                    continue;
                }
            put<M>(place, end == TileEnd::adds ? load<M>(place) + sums[r][v] : sums[r][v]);
        }
}

template <class M>
using Tile = void (*)(const Left<typename M::Element>&, const typename M::Element*, int64_t,
                      int64_t, float*, int64_t, TileEnd);

// The tile of a number of rows and vectors that is known when the program runs.
template <class M, int rows = M::rows, int vectors = M::vectors>
RINGSHARD_KERNEL Tile<M> tile_of(int64_t count, int64_t width) {
    if constexpr (rows > 1)
        if (count < rows) return tile_of<M, rows - 1, vectors>(count, width);
    if constexpr (vectors > 1)
        if (width < vectors) return tile_of<M, rows, vectors - 1>(count, width);
    return multiply_tile<M, rows, vectors>;
}

// A right matrix of `all_steps` rows and `width` columns, packed: panels of M::vectors vectors,
// each row by row; `width` is a multiple of M::lanes.
template <class M>
struct Right {
    const typename M::Element* data;
    int64_t width;
    int64_t all_steps;
    int64_t skipped = 0;  // steps that are left out at the beginning
};

// The first `columns` columns, a multiple of M::lanes, of the product of a few rows.
template <class M>
RINGSHARD_KERNEL void multiply(int64_t rows, const Left<typename M::Element>& left,
                               const Right<M>& right, int64_t columns, int64_t steps, float* c,
                               int64_t c_row, bool adds) {
    constexpr int64_t panel = M::vectors * M::lanes;
    for (int64_t begin = 0; begin < columns; begin += panel) {
        const int64_t in_memory = right.width - begin < panel ? right.width - begin : panel;
        const int64_t wanted = columns - begin < panel ? columns - begin : panel;
        const auto* const b = right.data + begin * right.all_steps + right.skipped * in_memory;
        tile_of<M>(rows, wanted / M::lanes)(left, b, in_memory, steps, c + begin, c_row,
                                            adds ? TileEnd::adds : TileEnd::overwrites);
    }
}

// Rows [count, width] -> Elements [count, elements of width].
template <class M, class T>
void pack_left(typename M::Element* into, const T* rows, int64_t stride, int64_t count,
               int64_t width) {
    for (int64_t r = 0; r < count; ++r) {
        M::pack_row(into, rows + r * stride, width);
        into += elements_of<M>(width);
    }
}

// M::lanes rows -> M::lanes columns of a right matrix with `in_memory` columns.
template <class M, class T>
RINGSHARD_KERNEL void pack_squares(typename M::Element* into, int64_t in_memory, const T* rows,
                                   int64_t stride, int64_t width) {
    constexpr int64_t numbers = M::lanes * M::per_element;
    int64_t i = 0;
    for (; i + numbers <= width; i += numbers) {
        typename M::Float square[M::lanes];
        for (int r = 0; r < M::lanes; ++r) square[r] = M::load_elements(rows + r * stride + i);
        transpose<M>(square);
        for (int r = 0; r < M::lanes; ++r)
            __builtin_memcpy(into + (i / M::per_element + r) * in_memory, &square[r],
                             sizeof square[r]);
    }
    for (int c = 0; c < M::lanes; ++c)
        M::pack_column(into + i / M::per_element * in_memory + c, in_memory, rows + c * stride + i,
                       width - i);
}

// Rows [count, width] -> a right matrix whose columns are the rows, and whose steps are Elements of
// a row. Columns are zero behind the last.
template <class M, class T>
void pack_columns(typename M::Element* into, const T* rows, int64_t stride, int64_t count,
                  int64_t width) {
    constexpr int64_t panel = M::vectors * M::lanes;
    const int64_t columns = rounded_up(count, M::lanes);
    const int64_t steps = elements_of<M>(width);
    for (int64_t begin = 0; begin < columns; begin += panel) {
        const int64_t in_memory = least(panel, columns - begin);
        typename M::Element* const first = into + begin * steps;
        int64_t c = 0;
        for (; c < in_memory && begin + c + M::lanes <= count; c += M::lanes)
            pack_squares<M>(first + c, in_memory, rows + (begin + c) * stride, stride, width);
        for (; c < in_memory; ++c)
            if (begin + c < count)
                M::pack_column(first + c, in_memory, rows + (begin + c) * stride, width);
            else
                for (int64_t k = 0; k < steps; ++k)
                    first[c + k * in_memory] = typename M::Element{};
    }
}

// Rows [count, width] -> a right matrix with their columns, up to a multiple of 16, whose steps are
// one row, or two rows where an Element holds two numbers.
template <class M, class T>
void pack_rows(typename M::Element* into, const T* rows, int64_t stride, int64_t count,
               int64_t width) {
    constexpr int64_t panel = M::vectors * M::lanes;
    const int64_t columns = (width + 15) / 16 * 16;
    const int64_t steps = elements_of<M>(count);
    for (int64_t begin = 0; begin < columns; begin += panel) {
        const int64_t in_memory = columns - begin < panel ? columns - begin : panel;
        const int64_t inside = width - begin < in_memory ? width - begin : in_memory;
        for (int64_t k = 0; k < steps; ++k) {
            const T* const row = rows + k * M::per_element * stride + begin;
            const bool has_next = (k + 1) * M::per_element <= count;
            M::pack_rows(into + begin * steps + k * in_memory, row, has_next ? stride : 0, inside,
                         in_memory);
        }
    }
}

// Products in fp32 of numbers of either type; an Element is one number.
template <class Vectors>
struct Numbers : Vectors {
    static constexpr int64_t per_element = 1;
    using Float = typename Vectors::Float;
    using Word = typename Vectors::Word;
    using Halves = typename Vectors::Halves;
    using Element = float;
    using Right = Float;

    static RINGSHARD_KERNEL Right spread_element(float value) { return value - Float{}; }
    static RINGSHARD_KERNEL Float dot(Float sum, Right left, Right right) {
        return sum + left * right;
    }
    static RINGSHARD_KERNEL void store_row(float* row, int64_t i, Float values) {
        __builtin_memcpy(row + i, &values, sizeof values);
    }

    static RINGSHARD_KERNEL float number(float stored) { return stored; }
    static RINGSHARD_KERNEL float number(uint16_t stored) {
        return __builtin_bit_cast(float, uint32_t{stored} << 16);
    }
    static RINGSHARD_KERNEL Float load_elements(const float* numbers) {
        return load<Vectors>(numbers);
    }
    static RINGSHARD_KERNEL Float load_elements(const uint16_t* numbers) {
        Halves halves;
        __builtin_memcpy(&halves, numbers, sizeof halves);
        return reinterpret_cast<Float>(__builtin_convertvector(halves, Word) << 16);
    }
    // To nearest, ties to even.
    static RINGSHARD_KERNEL Halves rounded(Float values) {
        const Word bits = reinterpret_cast<Word>(values);
        const Word nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        const Word not_a_number = Word{} + 0x7fc0;
        return __builtin_convertvector(values == values ? nearest : not_a_number, Halves);
    }
    template <class T>
    static RINGSHARD_KERNEL void pack_row(float* into, const T* row, int64_t count) {
        for (int64_t i = 0; i < count; ++i) into[i] = number(row[i]);
    }
    template <class T>
    static RINGSHARD_KERNEL void pack_column(float* into, int64_t stride, const T* row,
                                             int64_t count) {
        for (int64_t i = 0; i < count; ++i) into[i * stride] = number(row[i]);
    }
    template <class T>
    static RINGSHARD_KERNEL void pack_rows(float* into, const T* row, int64_t, int64_t count,
                                           int64_t columns) {
        for (int64_t i = 0; i < count; ++i) into[i] = number(row[i]);
        for (int64_t i = count; i < columns; ++i) into[i] = 0;
    }
};

// Products of bf16 by an instruction that multiplies two neighbouring numbers and adds both
// products in fp32; an Element is such a pair. Instruction gives dot() and rounded().
template <class Single, class Instruction>
struct Pairs : Single {
    static constexpr int64_t per_element = 2;
    using Float = typename Single::Float;
    using Word = typename Single::Word;
    using Halves = typename Single::Halves;
    using Element = uint32_t;
    using Right = Word;

    static RINGSHARD_KERNEL Right spread_element(uint32_t value) {
        return static_cast<int32_t>(value) - Word{};
    }
    static RINGSHARD_KERNEL Float dot(Float sum, Right left, Right right) {
        return Instruction::dot(sum, left, right);
    }
    static RINGSHARD_KERNEL Float load_elements(const uint16_t* numbers) {
        Float pairs;
        __builtin_memcpy(&pairs, numbers, sizeof pairs);
        return pairs;
    }
    static RINGSHARD_KERNEL Halves rounded(Float values) { return Instruction::rounded(values); }
    static RINGSHARD_KERNEL void store_row(uint32_t* row, int64_t i, Float values) {
        const Halves bits = rounded(values);
        __builtin_memcpy(row + i / 2, &bits, sizeof bits);
    }
    static RINGSHARD_KERNEL void store_pair(uint32_t* place, Float even, Float odd) {
        const Word low = __builtin_convertvector(rounded(even), Word);
        const Word high = __builtin_convertvector(rounded(odd), Word);
        const Word both = low | high << 16;
        __builtin_memcpy(place, &both, sizeof both);
    }

    static RINGSHARD_KERNEL uint32_t pair(uint16_t even, uint16_t odd) {
        return even | uint32_t{odd} << 16;
    }
    static RINGSHARD_KERNEL void pack_row(uint32_t* into, const uint16_t* row, int64_t count) {
        __builtin_memcpy(into, row, static_cast<uint64_t>(count / 2 * 4));
        if (count % 2 == 1) into[count / 2] = row[count - 1];
    }
    static RINGSHARD_KERNEL void pack_column(uint32_t* into, int64_t stride, const uint16_t* row,
                                             int64_t count) {
        for (int64_t i = 0; i < count / 2; ++i) {
            uint32_t both;
            __builtin_memcpy(&both, row + 2 * i, sizeof both);
            into[i * stride] = both;
        }
        if (count % 2 == 1) into[count / 2 * stride] = row[count - 1];
    }
    // The second row begins `stride` elements after the first. A stride of 0 means one row.
    static RINGSHARD_KERNEL void pack_rows(uint32_t* into, const uint16_t* row, int64_t stride,
                                           int64_t count, int64_t columns) {
        if (stride == 0)
            for (int64_t i = 0; i < count; ++i) into[i] = row[i];
        else
            for (int64_t i = 0; i < count; ++i) into[i] = pair(row[i], row[stride + i]);
        for (int64_t i = count; i < columns; ++i) into[i] = 0;
    }
};

}  // namespace
}  // namespace ringshard::ops
