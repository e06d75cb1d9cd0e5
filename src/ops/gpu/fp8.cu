#include <cuda_fp8.h>

#include <cmath>
#include <cstring>

#include "fp8_kernels.hpp"
#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

constexpr int codes_of_pack = 16;

struct Most {
    RINGSHARD_BOTH uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

RINGSHARD_BOTH uint32_t magnitude_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits & 0x7fffffffU;
}

RINGSHARD_BOTH float power_of_two(int32_t exponent) {
    const int32_t bits = (exponent + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

// Returns the largest exponent with which the magnitude stays in the range of the format, whose
// largest number is 1.75 x 2^8 or 1.75 x 2^15; at most 110, so that all is normal in bf16.
RINGSHARD_BOTH int32_t exponent_of(uint32_t magnitude, Fp8Type type) {
    const int32_t of_largest = type == Fp8Type::e4m3 ? 8 : 15;
    const int32_t exponent = of_largest - (static_cast<int32_t>(magnitude >> 23) - 127) -
                             ((magnitude & 0x7fffffU) > 0x600000U ? 1 : 0);
    return exponent < 110 ? exponent : 110;
}

RINGSHARD_BOTH uint8_t code_of(float number, Fp8Type type) {
    const float largest = type == Fp8Type::e4m3 ? 448.0F : 57344.0F;
    constexpr uint8_t not_a_number = 0x7f;
    if (!(fabsf(number) <= largest)) return not_a_number;
    return __nv_cvt_float_to_fp8(number, __NV_SATFINITE,
                                 type == Fp8Type::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

constexpr uint32_t infinity = 0x7f800000U;

// Codes of pairs; finite numbers beyond the range become the largest one.
template <int n>
RINGSHARD_BOTH Pack<uint8_t, n> codes_of_finite(const Floats<n>& numbers, float scale,
                                                Fp8Type type) {
    Pack<uint8_t, n> pack;
    for (int k = 0; k < n; k += 2) {
        const float2 pair = {numbers[k] * scale, numbers[k + 1] * scale};
        const uint16_t codes = type == Fp8Type::e4m3
                                   ? __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)
                                   : __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E5M2);
        memcpy(pack.numbers + k, &codes, sizeof(codes));
    }
    return pack;
}

// With a scale that may be too large: finite numbers beyond the range become the largest one.
// most: no magnitude is larger.
template <int n>
RINGSHARD_BOTH Pack<uint8_t, n> saturating_codes_of(const Floats<n>& numbers, uint32_t most,
                                                    float scale, Fp8Type type) {
    if constexpr (n > 1)
        if (most < infinity) return codes_of_finite<n>(numbers, scale, type);
    const float largest = type == Fp8Type::e4m3 ? 448.0F : 57344.0F;
    Pack<uint8_t, n> pack;
    for (int k = 0; k < n; ++k) {
        const float within = fminf(fmaxf(numbers[k] * scale, -largest), largest);
        pack.numbers[k] = code_of(magnitude_of(numbers[k]) < infinity ? within : NAN, type);
    }
    return pack;
}

// With the scale that follows from the largest magnitude.
template <int n>
RINGSHARD_BOTH Pack<uint8_t, n> codes_of(const Floats<n>& numbers, uint32_t largest, float scale,
                                         Fp8Type type) {
    if constexpr (n > 1)
        if (largest < infinity) return codes_of_finite<n>(numbers, scale, type);
    Pack<uint8_t, n> pack;
    for (int k = 0; k < n; ++k) pack.numbers[k] = code_of(numbers[k] * scale, type);
    return pack;
}

// Teams come in any order, and the largest of all numbers does not depend on it.
RINGSHARD_BOTH void raise(uint32_t* place, uint32_t magnitude) {
    NV_IF_ELSE_TARGET(NV_IS_HOST,
                      (uint32_t seen = __atomic_load_n(place, __ATOMIC_RELAXED);
                       while (seen < magnitude &&
                              !__atomic_compare_exchange_n(place, &seen, magnitude, false,
                                                           __ATOMIC_RELAXED, __ATOMIC_RELAXED)){}),
                      (atomicMax(place, magnitude);))
}

// Sixteen bytes at a time.
template <int n, class T>
RINGSHARD_BOTH Floats<n> load_packs(const T* from) {
    constexpr int of_pack = n == 1 ? 1 : 16 / static_cast<int>(sizeof(T));
    Floats<n> all;
    for (int first = 0; first < n; first += of_pack) {
        const Floats<of_pack> part = load<of_pack>(from + first);
        for (int k = 0; k < of_pack; ++k) all[first + k] = part[k];
    }
    return all;
}

template <int n>
RINGSHARD_BOTH uint32_t largest_of(const Floats<n>& numbers) {
    uint32_t most = 0;
    for (int k = 0; k < n; ++k) most = Most()(most, magnitude_of(numbers[k]));
    return most;
}

// Reads rows twice: of single numbers, or too wide for shared memory.
template <class T, int n>
struct QuantizeRows {
    Fp8Rows work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const T* const x = static_cast<const T*>(work.x) + team.number() * work.width;
        uint8_t* const codes = work.codes + team.number() * work.width;
        const uint32_t largest = team.reduce(
            work.width / n, uint32_t{0},
            [&](int64_t i) { return largest_of<n>(load_packs<n>(x + i * n)); }, Most());
        const int32_t exponent = exponent_of(largest, work.into_type);
        const float scale = power_of_two(exponent);
        team.each(1, [&](int64_t) { work.factors[team.number()] = power_of_two(-exponent); });
        team.each(work.width / n, [&](int64_t i) {
            store_pack<n>(codes + i * n,
                          codes_of<n>(load_packs<n>(x + i * n), largest, scale, work.into_type));
        });
    }
};

// Threads have their numbers of a row in registers.
template <class T, int threads, int packs>
struct QuantizeNarrowRows {
    static constexpr int n = codes_of_pack;
    static constexpr int of_part = 16 / static_cast<int>(sizeof(T));
    Fp8Rows work;

    struct Share {
        Pack<T, of_part> parts[packs][n / of_part];
    };

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const T* const x = static_cast<const T*>(work.x) + team.number() * work.width;
        uint8_t* const codes = work.codes + team.number() * work.width;
        const int count = static_cast<int>(work.width / n);
        auto own = team.template own<Share, 1>();
        team.each_own(threads, own, [&](int64_t thread, Share& share) {
            for_packs(thread, count, [&](int k, int pack) {
#pragma unroll
                for (int part = 0; part < n / of_part; ++part)
                    share.parts[k][part] = load_pack<of_part>(x + pack * n + part * of_part);
            });
        });
        const uint32_t largest = team.reduce_own(
            threads, own, uint32_t{0},
            [&](int64_t thread, const Share& share) {
                uint32_t most = 0;
                for_packs(thread, count, [&](int k, int) {
                    most = Most()(most, largest_of<n>(numbers_of(share, k)));
                });
                return most;
            },
            Most());
        const int32_t exponent = exponent_of(largest, work.into_type);
        const float scale = power_of_two(exponent);
        team.each(1, [&](int64_t) { work.factors[team.number()] = power_of_two(-exponent); });
        team.each_own(threads, own, [&](int64_t thread, const Share& share) {
            for_packs(thread, count, [&](int k, int pack) {
                store_pack<n>(codes + pack * n,
                              codes_of<n>(numbers_of(share, k), largest, scale, work.into_type));
            });
        });
    }

private:
    RINGSHARD_BOTH static Floats<n> numbers_of(const Share& share, int k) {
        Floats<n> all;
#pragma unroll
        for (int part = 0; part < n / of_part; ++part) {
            const Floats<of_part> numbers = to_floats<of_part>(share.parts[k][part]);
            for (int j = 0; j < of_part; ++j) all[part * of_part + j] = numbers[j];
        }
        return all;
    }
    template <class Work>
    RINGSHARD_BOTH static void for_packs(int64_t thread, int count, Work work_of_pack) {
#pragma unroll
        for (int k = 0; k < packs; ++k) {
            const int pack = static_cast<int>(thread) + k * threads;
            if (pack < count) work_of_pack(k, pack);
        }
    }
};

// The row waits in shared memory for its scale.
template <class T>
struct QuantizeWideRows {
    static constexpr int threads = 512;
    static constexpr int n = codes_of_pack;
    static constexpr int of_part = 16 / static_cast<int>(sizeof(T));
    static constexpr int at_once = 4;
    Fp8Rows work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const T* const x = static_cast<const T*>(work.x) + team.number() * work.width;
        uint8_t* const codes = work.codes + team.number() * work.width;
        T* const row = reinterpret_cast<T*>(team.memory());
        const int count = static_cast<int>(work.width / of_part);
        const uint32_t largest = team.reduce(
            threads, uint32_t{0},
            [&](int64_t thread) {
                uint32_t most = 0;
                for (int first = static_cast<int>(thread); first < count;
                     first += at_once * threads)
                    most = Most()(most, move(x, row, first, count));
                return most;
            },
            Most());
        team.sync();  // all of the row is in shared memory
        const int32_t exponent = exponent_of(largest, work.into_type);
        const float scale = power_of_two(exponent);
        team.each(1, [&](int64_t) { work.factors[team.number()] = power_of_two(-exponent); });
        team.each(work.width / n, [&](int64_t i) {
            store_pack<n>(codes + i * n,
                          codes_of<n>(load_packs<n>(row + i * n), largest, scale, work.into_type));
        });
    }

private:
    RINGSHARD_BOTH static uint32_t move(const T* x, T* row, int first, int count) {
        Pack<T, of_part> parts[at_once];
        for (int u = 0; u < at_once; ++u)
            if (first + u * threads < count)
                parts[u] = load_pack<of_part>(x + (first + u * threads) * of_part);
        uint32_t most = 0;
        for (int u = 0; u < at_once; ++u)
            if (first + u * threads < count) {
                most = Most()(most, largest_of<of_part>(to_floats<of_part>(parts[u])));
                store_pack<of_part>(row + (first + u * threads) * of_part, parts[u]);
            }
        return most;
    }
};

// A team goes through a stretch of numbers, in packs.
constexpr int64_t numbers_of_stretch = 256 * 4 * codes_of_pack;
int64_t num_stretches(int64_t count) {
    return (count + numbers_of_stretch - 1) / numbers_of_stretch;
}
RINGSHARD_BOTH int64_t packs_of_stretch(int64_t count, int64_t first, int n) {
    const int64_t rest = count - first;
    return (rest < numbers_of_stretch ? rest : numbers_of_stretch) / n;
}

template <class T, int n>
struct RaiseMaximum {
    Fp8Maximum work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() * numbers_of_stretch;
        const T* const x = static_cast<const T*>(work.x) + first;
        const uint32_t largest = team.reduce(
            packs_of_stretch(work.count, first, n), uint32_t{0},
            [&](int64_t i) { return largest_of<n>(load_packs<n>(x + i * n)); }, Most());
        team.each(1, [&](int64_t) { raise(work.maximum, largest); });
    }
};

template <class T, int n>
struct QuantizeTensor {
    Fp8Tensor work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t first = team.number() * numbers_of_stretch;
        const T* const x = static_cast<const T*>(work.x) + first;
        uint8_t* const codes = work.codes + first;
        const int32_t exponent =
            work.largest != nullptr ? exponent_of(*work.largest, work.into_type) : *work.exponent;
        const float scale = power_of_two(exponent);
        const uint32_t largest = team.reduce(
            packs_of_stretch(work.count, first, n), uint32_t{0},
            [&](int64_t i) {
                const Floats<n> numbers = load_packs<n>(x + i * n);
                const uint32_t most = largest_of<n>(numbers);
                store_pack<n>(codes + i * n,
                              saturating_codes_of<n>(numbers, most, scale, work.into_type));
                return first + i * n < work.counted ? most : 0;
            },
            Most());
        team.each(1, [&](int64_t) {
            if (first == 0) *work.factor = power_of_two(-exponent);
            if (work.maximum != nullptr) raise(work.maximum, largest);
        });
    }
};

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

}  // namespace

void quantize_rows(const Queue& queue, const Fp8Rows& work) {
    constexpr int64_t narrow = 4096;
    constexpr int64_t bytes_of_two_blocks = 100 * 1024;  // of shared memory, for each
    with_type(work.type, [&](auto* null) {
        using T = std::remove_pointer_t<decltype(null)>;
        constexpr int of_pack = 16 / static_cast<int>(sizeof(T));
        const int64_t bytes = work.width * static_cast<int64_t>(sizeof(T));
        const bool has_packs = work.width % codes_of_pack == 0 &&
                               fits<T>(of_pack, work.width, work.x) &&
                               fits<uint8_t>(codes_of_pack, work.width, work.codes);
        if (!has_packs)
            run<256>(queue, work.rows, QuantizeRows<T, 1>{work});
        else if (work.width <= narrow / 4)
            run<32>(queue, work.rows, QuantizeNarrowRows<T, 32, 2>{work});
        else if (work.width <= narrow)
            run<128>(queue, work.rows, QuantizeNarrowRows<T, 128, 2>{work});
        else if (bytes <= bytes_of_two_blocks)
            run<QuantizeWideRows<T>::threads>(queue, work.rows, QuantizeWideRows<T>{work},
                                              bytes / static_cast<int64_t>(sizeof(float)));
        else
            run<256>(queue, work.rows, QuantizeRows<T, codes_of_pack>{work});
    });
}

namespace {

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

namespace {

// Calls `work` with the type and the size of packs: sixteen codes, or one.
template <class Work, class... Pointers>
void with_codes(NumberType type, int64_t count, Work work, Pointers... pointers) {
    with_type(type, [&](auto* null) {
        using T = std::remove_pointer_t<decltype(null)>;
        constexpr int of_pack = 16 / static_cast<int>(sizeof(T));
        if (count % codes_of_pack == 0 && fits<T>(of_pack, count, pointers...))
            work(null, PackSize<codes_of_pack>());
        else
            work(null, PackSize<1>());
    });
}

}  // namespace

void quantize_tensor(const Queue& queue, const Fp8Tensor& work) {
    // Whole packs count, or none of their numbers.
    const int64_t count = work.counted % codes_of_pack == 0 ? work.count : 1;
    with_codes(
        work.type, count,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<256>(queue, num_stretches(work.count),
                     QuantizeTensor<T, decltype(size)::value>{work});
        },
        work.x, work.codes);
}

void raise_maximum(const Queue& queue, const Fp8Maximum& work) {
    with_codes(
        work.type, work.count,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<256>(queue, num_stretches(work.count),
                     RaiseMaximum<T, decltype(size)::value>{work});
        },
        work.x);
}

}  // namespace ringshard::ops::gpu
