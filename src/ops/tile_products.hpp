#pragma once

#include <immintrin.h>

#include <cstdint>

#include "vectors.hpp"

// Tiles of AMX, matrices of bf16 packed for them, and their products. A file that includes this is
// compiled with the flags of that processor; everything is in an unnamed namespace.
//   sums    16 rows of 16 numbers of fp32
//   left    16 rows of 32 terms
//   right   16 rows of two terms of 16 columns each, side by side
namespace ringshard::ops {
namespace {

constexpr int64_t tile_side = 16;
constexpr int64_t tile_terms = 32;
constexpr int64_t tile_numbers = tile_side * tile_terms;  // of bf16
constexpr int64_t tile_row_bytes = 64;

// The sizes of all eight tiles: the greatest that there are.
struct alignas(64) TileShapes {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Not in a function: the compiler does not see that the instruction reads all of it.
constexpr TileShapes greatest_tiles;

// Configured tiles, for the thread that makes this.
class Tiles {
public:
    Tiles() { _tile_loadconfig(&greatest_tiles); }
    // A core without configured tiles rests more deeply.
    ~Tiles() { _tile_release(); }
    Tiles(const Tiles&) = delete;
    Tiles& operator=(const Tiles&) = delete;
};

// Numbers of bf16 of a matrix: those of a line are neighbours, lines lie `stride` apart. Numbers
// beyond `lines` and `length` count as zeros.
struct Lines {
    const uint16_t* data;
    int64_t stride;
    int64_t lines;
    int64_t length;
};

RINGSHARD_KERNEL __mmask32 first_of_32(int64_t count) {
    return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << (count > 0 ? count : 0)) - 1;
}

// The bits of 16 numbers of fp32, or of 16 pairs of bf16.
using TileRow = VectorsOf16::Float;

// 32 numbers of 16 lines, as they lie: a left tile of rows, or a right one before its exchange.
RINGSHARD_KERNEL void load_lines(TileRow (&rows)[16], const Lines& from, int64_t line,
                                 int64_t number) {
    const __mmask32 mask = first_of_32(from.length - number);
    const uint16_t* place = from.data + line * from.stride + number;
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
        rows[i] = line + i < from.lines
                      ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, place + i * from.stride))
                      : TileRow{};
}

RINGSHARD_KERNEL void store_tile(uint16_t* into, const TileRow (&rows)[16]) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_ps(into + i * tile_terms, rows[i]);
}

RINGSHARD_KERNEL void turn_tile(uint16_t* tile) {
    TileRow rows[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = _mm512_load_ps(tile + i * tile_terms);
    transpose<VectorsOf16>(rows);
    store_tile(tile, rows);
}

// Numbers of two lines, taken in turn.
struct Turns {
    __m512i first;   // of 16 of each
    __m512i second;  // of the next 16
};
RINGSHARD_KERNEL Turns take_turns(__m512i even, __m512i odd) {
    alignas(64) static constexpr uint16_t first[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                       37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                       11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i of_first = _mm512_load_si512(first);
    const __m512i of_second = _mm512_add_epi16(of_first, _mm512_set1_epi16(16));
    return {_mm512_permutex2var_epi16(even, of_first, odd),
            _mm512_permutex2var_epi16(even, of_second, odd)};
}

// 32 numbers of 32 lines, two lines side by side in a row: two right tiles whose terms are lines.
RINGSHARD_KERNEL void store_pairs(uint16_t* into, const Lines& from, int64_t line, int64_t number) {
    const __mmask32 mask = first_of_32(from.length - number);
    const auto load_line = [&](int64_t of_line) {
        const __mmask32 there = of_line < from.lines ? mask : 0;
        return _mm512_maskz_loadu_epi16(there, from.data + of_line * from.stride + number);
    };
#pragma GCC unroll 4
    for (int i = 0; i < 16; ++i) {
        const Turns pairs = take_turns(load_line(line + 2 * i), load_line(line + 2 * i + 1));
        _mm512_store_si512(into + i * tile_terms, pairs.first);
        _mm512_store_si512(into + tile_numbers + i * tile_terms, pairs.second);
    }
}

// 32 numbers of 16 lines, in the direction of the sum: a left tile, or a right one.
enum class TileKind { left, right };

template <TileKind kind>
RINGSHARD_KERNEL void pack_lines(uint16_t* into, const Lines& from, int64_t line, int64_t number) {
    TileRow rows[16];
    load_lines(rows, from, line, number);
    if constexpr (kind == TileKind::right) transpose<VectorsOf16>(rows);
    store_tile(into, rows);
}

// Panels of two tiles side by side, and 32 terms behind each other. Lines lie across the direction
// of the sum, or along it.
constexpr int64_t tile_panel = 2 * tile_side;

template <TileKind kind, bool across>
void pack_panels(uint16_t* into, const Lines& from, int64_t places, int64_t terms) {
    for (int64_t place = 0; place < places; place += tile_panel)
        for (int64_t term = 0; term < terms; term += tile_terms) {
            if constexpr (across) {
                store_pairs(into, from, term, place);
                if constexpr (kind == TileKind::left) {
                    turn_tile(into);
                    turn_tile(into + tile_numbers);
                }
            } else {
                pack_lines<kind>(into, from, place, term);
                pack_lines<kind>(into + tile_numbers, from, place + tile_side, term);
            }
            into += 2 * tile_numbers;
        }
}

// 16 rows of a left matrix and 16 more, and the way from one tile to the next.
struct LeftTiles {
    const uint16_t* upper;
    const uint16_t* lower;
    int64_t row_bytes;
    int64_t step;
};
RINGSHARD_KERNEL LeftTiles left_rows(const uint16_t* rows, int64_t stride) {
    return {rows, rows + tile_side * stride, stride * static_cast<int64_t>(sizeof(uint16_t)),
            tile_terms};
}
RINGSHARD_KERNEL LeftTiles left_panel(const uint16_t* panel) {
    return {panel, panel + tile_numbers, tile_row_bytes, 2 * tile_numbers};
}

struct TileSums {
    float* data;
    int64_t stride;
};

// 32 rows times a panel of 32 columns. Tiles 0 to 3 are sums: the upper left and right ones, the
// lower left and right ones. 4 and 5 are the upper and the lower rows of `left`, 6 and 7 the first
// and the second columns of `right`.
RINGSHARD_KERNEL void multiply_tiles(LeftTiles left, const uint16_t* right, int64_t steps,
                                     const TileSums& sums, bool adds) {
    float* const lower_sums = sums.data + tile_side * sums.stride;
    const int64_t row_bytes = sums.stride * static_cast<int64_t>(sizeof(float));
    if (adds) {
        _tile_loadd(0, sums.data, row_bytes);
        _tile_loadd(1, sums.data + tile_side, row_bytes);
        _tile_loadd(2, lower_sums, row_bytes);
        _tile_loadd(3, lower_sums + tile_side, row_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t step = 0; step < steps; ++step) {
        _tile_loadd(6, right, tile_row_bytes);
        _tile_loadd(4, left.upper, left.row_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, right + tile_numbers, tile_row_bytes);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, left.lower, left.row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        left.upper += left.step;
        left.lower += left.step;
        right += 2 * tile_numbers;
    }
    _tile_stored(0, sums.data, row_bytes);
    _tile_stored(1, sums.data + tile_side, row_bytes);
    _tile_stored(2, lower_sums, row_bytes);
    _tile_stored(3, lower_sums + tile_side, row_bytes);
}

}  // namespace
}  // namespace ringshard::ops
