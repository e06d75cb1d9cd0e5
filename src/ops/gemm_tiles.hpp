#pragma once

#include "gemm_kernels.hpp"
#include "tile_products.hpp"

// A product of matrices of bf16 by tiles of AMX. Four tiles of sums, a panel of 32 rows times one
// of 32 columns, stay in registers for a block of terms. Panels of b for up to 512 columns stay in
// the second cache while a band of a, which is packed as well, goes by. The order in which the
// terms of a number are added depends on the number of terms alone.
namespace ringshard::ops {
namespace {

class TileGemm {
    static constexpr int64_t most_block_terms = 1280;
    static constexpr int64_t block_columns = 512;
    static constexpr int64_t most_band_rows = 2048;
    static constexpr int64_t least_band_rows = 512;
    static constexpr int64_t most_band_numbers = int64_t{1} << 22;  // that stay packed
    static constexpr int64_t most_stride_in_place = 1024;
    static constexpr int64_t panel_sums = tile_panel * tile_panel;

public:
    static constexpr int64_t memory_bytes =
        2 * (most_band_numbers + block_columns * most_block_terms) +
        static_cast<int64_t>(sizeof(float)) * most_band_rows * block_columns;

    TileGemm(const GemmTask<uint16_t>& task, void* memory)
        : task_(task),
          packed_a_(static_cast<uint16_t*>(memory)),
          packed_b_(packed_a_ + most_band_numbers),
          band_sums_(reinterpret_cast<float*>(packed_b_ + block_columns * most_block_terms)),
          all_terms_(rounded_up(task.terms, tile_terms)),
          blocks_((all_terms_ + most_block_terms - 1) / most_block_terms),
          block_terms_(rounded_up((all_terms_ + blocks_ - 1) / blocks_, tile_terms)),
          band_rows_(band_rows()),
          keeps_band_(band_rows_ * all_terms_ <= most_band_numbers) {}

    void run() {
        for (int64_t row = 0; row < task_.rows; row += band_rows_) {
            const int64_t rows = least(band_rows_, task_.rows - row);
            const int64_t in_place = is_read_in_place() ? rows / tile_panel * tile_panel : 0;
            for (int64_t column = 0; column < task_.columns; column += block_columns)
                for (int64_t term = 0; term < all_terms_; term += block_terms_)
                    multiply_block({row, rows, in_place, column,
                                    least(block_columns, task_.columns - column), term,
                                    least(block_terms_, all_terms_ - term)});
        }
    }

private:
    // Terms are rounded up to whole tiles.
    struct Block {
        int64_t row, rows;
        int64_t rows_in_place;  // from the first on, that are not packed
        int64_t column, columns;
        int64_t term, terms;
    };

    // Where all terms of fewer rows stay packed, other columns need not pack them again.
    int64_t band_rows() const {
        const int64_t rows = most_band_numbers / all_terms_ / tile_panel * tile_panel;
        return rows < least_band_rows ? most_band_rows : least(rows, most_band_rows);
    }

    bool begins(const Block& block) const { return block.term == 0; }
    bool ends(const Block& block) const { return block.term + block.terms >= all_terms_; }

    void multiply_block(const Block& block) {
        pack_b(block);
        const uint16_t* const packed = pack_a(block);
        for (int64_t row = 0; row < block.rows; row += tile_panel) {
            const LeftTiles left =
                row < block.rows_in_place
                    ? left_in_place(block, row)
                    : left_panel(packed + (row - block.rows_in_place) * block.terms);
            for (int64_t column = 0; column < block.columns; column += tile_panel)
                multiply_panels(block, row, column, left, packed_b_ + column * block.terms);
        }
    }

    // Rows that are neighbours in memory, and whose tiles are whole lines of the caches.
    bool is_read_in_place() const {
        const auto& [data, stride, is_transposed] = task_.a;
        return !is_transposed && all_terms_ == task_.terms && stride % tile_terms == 0 &&
               stride <= most_stride_in_place &&
               reinterpret_cast<uintptr_t>(data) % tile_row_bytes == 0;
    }

    LeftTiles left_in_place(const Block& block, int64_t row) const {
        const auto& [data, stride, is_transposed] = task_.a;
        return left_rows(data + (block.row + row) * stride + block.term, stride);
    }

    // Packs the rows that cannot be read in place, unless the columns before have done so.
    const uint16_t* pack_a(const Block& block) {
        const auto& [data, stride, is_transposed] = task_.a;
        const int64_t terms = least(block.terms, task_.terms - block.term);
        const int64_t row = block.row + block.rows_in_place;
        const int64_t rows = block.rows - block.rows_in_place;
        uint16_t* const into =
            packed_a_ + (keeps_band_ ? rounded_up(rows, tile_panel) * block.term : 0);
        if (keeps_band_ && block.column > 0) return into;
        if (is_transposed)
            pack_panels<TileKind::left, true>(
                into, {data + block.term * stride + row, stride, terms, rows}, rows, block.terms);
        else
            pack_panels<TileKind::left, false>(
                into, {data + row * stride + block.term, stride, rows, terms}, rows, block.terms);
        return into;
    }

    void pack_b(const Block& block) {
        const auto& [data, stride, is_transposed] = task_.b;
        const int64_t terms = least(block.terms, task_.terms - block.term);
        if (is_transposed)
            pack_panels<TileKind::right, false>(
                packed_b_,
                {data + block.column * stride + block.term, stride, block.columns, terms},
                block.columns, block.terms);
        else
            pack_panels<TileKind::right, true>(
                packed_b_,
                {data + block.term * stride + block.column, stride, terms, block.columns},
                block.columns, block.terms);
    }

    // Sums stand in the result if it is of fp32 and holds the whole panel, in the band if terms
    // come in several blocks, or else in memory of this function.
    void multiply_panels(const Block& block, int64_t row, int64_t column, const LeftTiles& left,
                         const uint16_t* right) {
        const int64_t rows = least(tile_panel, block.rows - row);
        const int64_t columns = least(tile_panel, block.columns - column);
        const int64_t result = (block.row + row) * task_.result_stride + block.column + column;
        alignas(64) float memory[panel_sums];
        TileSums sums{memory, tile_panel};
        const bool is_whole = rows == tile_panel && columns == tile_panel;
        const bool is_in_place = task_.sums != nullptr && task_.bias == nullptr && is_whole;
        if (is_in_place)
            sums = {task_.sums + result, task_.result_stride};
        else if (!(begins(block) && ends(block)))
            sums = {band_sums_ + row * block_columns + column, block_columns};

        const bool adds = !begins(block) || (is_in_place && task_.adds);
        multiply_tiles(left, right, block.terms / tile_terms, sums, adds);
        if (ends(block) && !is_in_place) finish(block.column + column, result, sums, rows, columns);
    }

    // The numbers of 32 columns.
    struct Columns {
        __m512 first;
        __m512 second;
    };
    static Columns wide(const uint16_t* numbers, __mmask32 mask) {
        const __m512i halves = _mm512_maskz_loadu_epi16(mask, numbers);
        const Turns bits = take_turns(_mm512_setzero_si512(), halves);
        return {_mm512_castsi512_ps(bits.first), _mm512_castsi512_ps(bits.second)};
    }

    // Brings sums, with the bias and with what they are added to, into the result.
    void finish(int64_t first_column, int64_t result, const TileSums& sums, int64_t rows,
                int64_t columns) const {
        const __mmask32 mask = first_of_32(columns);
        Columns bias{};
        if (task_.bias != nullptr) bias = wide(task_.bias + first_column, mask);
        for (int64_t r = 0; r < rows; ++r) {
            const float* const row = sums.data + r * sums.stride;
            const Columns values{_mm512_load_ps(row) + bias.first,
                                 _mm512_load_ps(row + tile_side) + bias.second};
            const int64_t place = result + r * task_.result_stride;
            if (task_.sums != nullptr)
                put_sums(task_.sums + place, values, mask);
            else
                put_rounded(task_.rounded + place, values, mask);
        }
    }

    void put_sums(float* into, Columns values, __mmask32 mask) const {
        const auto of_first = static_cast<__mmask16>(mask);
        const auto of_second = static_cast<__mmask16>(mask >> tile_side);
        if (task_.adds) {
            values.first += _mm512_maskz_loadu_ps(of_first, into);
            values.second += _mm512_maskz_loadu_ps(of_second, into + tile_side);
        }
        _mm512_mask_storeu_ps(into, of_first, values.first);
        _mm512_mask_storeu_ps(into + tile_side, of_second, values.second);
    }
    void put_rounded(uint16_t* into, Columns values, __mmask32 mask) const {
        if (task_.adds) {
            const Columns there = wide(into, mask);
            values.first += there.first;
            values.second += there.second;
        }
        const auto rounded =
            reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(values.second, values.first));
        _mm512_mask_storeu_epi16(into, mask, rounded);
    }

    const GemmTask<uint16_t>& task_;
    uint16_t* packed_a_;
    uint16_t* packed_b_;
    float* band_sums_;
    int64_t all_terms_;
    int64_t blocks_;
    int64_t block_terms_;
    int64_t band_rows_;
    bool keeps_band_;
};

void multiply_by_tiles(const GemmTask<uint16_t>& task, void* memory) {
    const Tiles tiles;
    TileGemm(task, memory).run();
}

}  // namespace
}  // namespace ringshard::ops
