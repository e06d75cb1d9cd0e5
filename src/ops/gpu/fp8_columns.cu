#include "fp8_codes.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

using namespace fp8;

namespace {

// A team goes through a block of rows: a thread through every n-th row of a pack of columns.
template <class T, int n>
struct FindLargest {
    static constexpr int threads = 256;
    static constexpr int64_t columns_of_team = threads;
    static constexpr int64_t rows_of_team = 64;
    static constexpr int64_t floats_of_team = n * columns_of_team;
    Fp8Columns work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        constexpr int packs = threads / n;
        const int64_t strips = (work.width + columns_of_team - 1) / columns_of_team;
        const int64_t first_row = team.number() / strips * rows_of_team;
        const int64_t first = team.number() % strips * columns_of_team;
        const int64_t rest = work.rows - first_row;
        const int rows = static_cast<int>(rest < rows_of_team ? rest : rows_of_team);
        const T* const x = static_cast<const T*>(work.x) + first_row * work.width + first;
        auto* const found = reinterpret_cast<uint32_t*>(team.memory());
        team.each(threads, [&](int64_t thread) {
            const int pack = static_cast<int>(thread) % packs;
            Pack<uint32_t, n> largest{};
            if (first + pack * n < work.width)
                for (int row = static_cast<int>(thread) / packs; row < rows; row += n) {
                    const Floats<n> numbers = load<n>(x + row * work.width + pack * n);
                    for (int k = 0; k < n; ++k)
                        largest.numbers[k] = Most()(largest.numbers[k], magnitude_of(numbers[k]));
                }
            *reinterpret_cast<Pack<uint32_t, n>*>(found + thread * n) = largest;
        });
        team.sync();
        const int64_t columns = work.width - first;
        team.each(columns < columns_of_team ? columns : columns_of_team, [&](int64_t column) {
            uint32_t largest = 0;
            for (int share = 0; share < n; ++share)
                largest = Most()(largest, found[share * columns_of_team + column]);
            raise(work.largest + first + column, largest);
        });
    }
};

// A team turns a tile over in shared memory: a thread makes the codes of four rows, which are a
// word of each of its columns. are_alike: one factor for all columns.
template <class T, int n, bool are_alike = false>
struct QuantizeColumns {
    static constexpr int64_t columns_of_team = 64;
    static constexpr int64_t rows_of_team = 128;
    static constexpr int rows_of_word = 4;
    static constexpr int words_of_column = rows_of_team / rows_of_word;
    static constexpr int64_t floats_of_team = columns_of_team * words_of_column;
    Fp8Columns work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t tiles_of_row = (work.width + columns_of_team - 1) / columns_of_team;
        const int64_t first_row = team.number() / tiles_of_row * rows_of_team;
        const int64_t first_column = team.number() % tiles_of_row * columns_of_team;
        const int rows = smaller(work.rows - first_row, rows_of_team);
        const int columns = smaller(work.width - first_column, columns_of_team);
        auto* const words = reinterpret_cast<uint32_t*>(team.memory());
        constexpr int packs = columns_of_team / n;
        team.each(packs * words_of_column, [&](int64_t i) {
            const int column = static_cast<int>(i) % packs * n;
            const int row = static_cast<int>(i) / packs * rows_of_word;
            if (column >= columns || row >= rows) return;
            Pack<T, n> numbers[rows_of_word];
            const T* const x =
                static_cast<const T*>(work.x) + (first_row + row) * work.width + first_column;
            for (int j = 0; j < rows_of_word; ++j)
                numbers[j] = load_pack<n>(x + j * work.width + column);
            uint32_t largest[n];
            uint32_t most = 0;
            for (int k = 0; k < n; ++k) {
                largest[k] = largest_of_column(first_column + column + k);
                most = Most()(most, largest[k]);
            }
            for (int k = 0; k < n; ++k) {
                const float scale = power_of_two(exponent_of(largest[k], work.into_type));
                Floats<rows_of_word> of_column;
                for (int j = 0; j < rows_of_word; ++j)
                    of_column[j] = to_float(numbers[j].numbers[k]);
                const auto codes = codes_of<rows_of_word>(of_column, most, scale, work.into_type);
                memcpy(words + place_of(column + k, row / rows_of_word), &codes, sizeof(codes));
            }
        });
        if (first_row == 0) put_factors(team, first_column, are_alike ? 1 : columns);
        team.sync();
        constexpr int codes_of_column = rows_of_team / codes_of_pack;
        team.each(columns * codes_of_column, [&](int64_t i) {
            const int column = static_cast<int>(i) / codes_of_column;
            const int row = static_cast<int>(i) % codes_of_column * codes_of_pack;
            if (row >= rows) return;
            using Words = Pack<uint32_t, codes_of_pack / rows_of_word>;
            const Words pack =
                *reinterpret_cast<const Words*>(words + place_of(column, row / rows_of_word));
            uint8_t* const codes =
                work.codes + (first_column + column) * work.rows + first_row + row;
            store_pack<codes_of_pack / rows_of_word>(reinterpret_cast<uint32_t*>(codes), pack);
        });
    }

private:
    RINGSHARD_BOTH static int smaller(int64_t count, int64_t most) {
        return static_cast<int>(count < most ? count : most);
    }
    RINGSHARD_BOTH uint32_t largest_of_column(int64_t column) const {
        return work.largest[are_alike ? 0 : column];
    }
    // Of the code of four rows. Columns of neighbouring packs have theirs in other banks of the
    // memory; those of sixteen rows lie together.
    RINGSHARD_BOTH static int place_of(int column, int word) {
        return column * words_of_column + (word ^ (column / 8 % 8 * 4));
    }

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void put_factors(const Team& team, int64_t first, int count) const {
        if (are_alike && first != 0) return;
        team.each(count, [&](int64_t column) {
            const uint32_t largest = largest_of_column(first + column);
            work.factors[first + column] = power_of_two(-exponent_of(largest, work.into_type));
        });
    }
};

template <class Quantize>
void run_tiles(const Queue& queue, const Fp8Columns& work) {
    const int64_t tiles_of_column =
        (work.rows + Quantize::rows_of_team - 1) / Quantize::rows_of_team;
    const int64_t tiles_of_row =
        (work.width + Quantize::columns_of_team - 1) / Quantize::columns_of_team;
    run<256>(queue, tiles_of_column * tiles_of_row, Quantize{work}, Quantize::floats_of_team);
}

}  // namespace

void quantize_columns(const Queue& queue, const Fp8Columns& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            using Find = FindLargest<T, decltype(size)::value>;
            const int64_t strips = (work.width + Find::columns_of_team - 1) / Find::columns_of_team;
            const int64_t blocks = (work.rows + Find::rows_of_team - 1) / Find::rows_of_team;
            run<Find::threads>(queue, blocks * strips, Find{work}, Find::floats_of_team);
            run_tiles<QuantizeColumns<T, decltype(size)::value>>(queue, work);
        },
        work.x);
}

void quantize_columns_alike(const Queue& queue, const Fp8Columns& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run_tiles<QuantizeColumns<T, decltype(size)::value, true>>(queue, work);
        },
        work.x);
}

}  // namespace ringshard::ops::gpu
