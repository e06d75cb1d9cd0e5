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

// With a scale that may be too large: finite numbers beyond the range become the largest one.
RINGSHARD_BOTH uint8_t saturating_code_of(float number, float scale, Fp8Type type) {
    const float largest = type == Fp8Type::e4m3 ? 448.0F : 57344.0F;
    constexpr uint32_t infinity = 0x7f800000U;
    const float within = fminf(fmaxf(number * scale, -largest), largest);
    return code_of(magnitude_of(number) < infinity ? within : NAN, type);
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
            [&](int64_t i) {
                const Floats<n> numbers = load_packs<n>(x + i * n);
                uint32_t most = 0;
                for (int k = 0; k < n; ++k) most = Most()(most, magnitude_of(numbers[k]));
                return most;
            },
            Most());
        const int32_t exponent = exponent_of(largest, work.into_type);
        const float scale = power_of_two(exponent);
        team.each(1, [&](int64_t) { work.factors[team.number()] = power_of_two(-exponent); });
        team.each(work.width / n, [&](int64_t i) {
            const Floats<n> numbers = load_packs<n>(x + i * n);
            Pack<uint8_t, n> pack;
            for (int k = 0; k < n; ++k)
                pack.numbers[k] = code_of(numbers[k] * scale, work.into_type);
            store_pack<n>(codes + i * n, pack);
        });
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
            [&](int64_t i) {
                const Floats<n> numbers = load_packs<n>(x + i * n);
                uint32_t most = 0;
                for (int k = 0; k < n; ++k) most = Most()(most, magnitude_of(numbers[k]));
                return most;
            },
            Most());
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
                Pack<uint8_t, n> pack;
                uint32_t most = 0;
                for (int k = 0; k < n; ++k) {
                    pack.numbers[k] = saturating_code_of(numbers[k], scale, work.into_type);
                    most = Most()(most, magnitude_of(numbers[k]));
                }
                store_pack<n>(codes + i * n, pack);
                return first + i * n < work.counted ? most : 0;
            },
            Most());
        team.each(1, [&](int64_t) {
            if (first == 0) *work.factor = power_of_two(-exponent);
            if (work.maximum != nullptr) raise(work.maximum, largest);
        });
    }
};

// A team goes through a range of rows, each thread with columns of its own.
template <class T, int n>
struct FindLargest {
    static constexpr int64_t columns_of_team = 256 * n;
    Fp8Columns work;
    int64_t num_ranges;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t range = team.number() % num_ranges;
        const int64_t first = team.number() / num_ranges * columns_of_team;
        const int64_t rest = work.width - first;
        const int64_t begin = work.rows * range / num_ranges;
        const int64_t end = work.rows * (range + 1) / num_ranges;
        team.each((rest < columns_of_team ? rest : columns_of_team) / n, [&](int64_t i) {
            const int64_t column = first + i * n;
            Pack<uint32_t, n> largest{};
            for (int64_t row = begin; row < end; ++row) {
                const Floats<n> numbers =
                    load<n>(static_cast<const T*>(work.x) + row * work.width + column);
                for (int k = 0; k < n; ++k)
                    largest.numbers[k] = Most()(largest.numbers[k], magnitude_of(numbers[k]));
            }
            // Counts in packs: nvcc then stores a pack with one instruction.
            auto* const packs = reinterpret_cast<Pack<uint32_t, n>*>(work.largest);
            store_pack<n>(packs[(range * work.width + column) / n].numbers, largest);
        });
    }
};

// A team transposes a square of codes in shared memory. are_alike: one factor for all columns.
template <class T, int n, bool are_alike = false>
struct QuantizeColumns {
    static constexpr int64_t side = 64;
    static constexpr int64_t pitch = side + 4;
    static constexpr int64_t floats_of_team = side + side * pitch / 4;
    Fp8Columns work;
    int64_t num_ranges;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t squares_of_row = (work.width + side - 1) / side;
        const int64_t first_row = team.number() / squares_of_row * side;
        const int64_t first_column = team.number() % squares_of_row * side;
        const int64_t rows = rest_of(work.rows - first_row);
        const int64_t columns = rest_of(work.width - first_column);
        float* const scales = team.memory();
        auto* const square = reinterpret_cast<uint8_t*>(scales + side);
        team.each(columns, [&](int64_t column) {
            uint32_t largest = are_alike ? *work.largest : 0;
            for (int64_t range = 0; range < num_ranges; ++range)
                largest = Most()(largest, work.largest[range * work.width + first_column + column]);
            const int32_t exponent = exponent_of(largest, work.into_type);
            scales[column] = power_of_two(exponent);
            const int64_t place = are_alike ? column : first_column + column;
            const bool is_first = first_row == 0 && (!are_alike || place + first_column == 0);
            if (is_first) work.factors[place] = power_of_two(-exponent);
        });
        team.sync();
        team.each(rows * (columns / n), [&](int64_t i) {
            const int64_t row = i / (columns / n);
            const int64_t column = i % (columns / n) * n;
            const Floats<n> numbers =
                load<n>(static_cast<const T*>(work.x) + (first_row + row) * work.width +
                        first_column + column);
            for (int k = 0; k < n; ++k)
                square[(column + k) * pitch + row] =
                    code_of(numbers[k] * scales[column + k], work.into_type);
        });
        team.sync();
        team.each(columns * (rows / codes_of_pack), [&](int64_t i) {
            const int64_t column = i / (rows / codes_of_pack);
            const int64_t row = i % (rows / codes_of_pack) * codes_of_pack;
            Pack<uint8_t, codes_of_pack> pack;
            for (int k = 0; k < codes_of_pack; ++k)
                pack.numbers[k] = square[column * pitch + row + k];
            store_pack<codes_of_pack>(
                work.codes + (first_column + column) * work.rows + first_row + row, pack);
        });
    }

private:
    __host__ __device__ static int64_t rest_of(int64_t count) {
        return count < side ? count : side;
    }
};

}  // namespace

void quantize_rows(const Queue& queue, const Fp8Rows& work) {
    with_type(work.type, [&](auto* null) {
        using T = std::remove_pointer_t<decltype(null)>;
        constexpr int of_pack = 16 / static_cast<int>(sizeof(T));
        if (work.width % codes_of_pack == 0 && fits<T>(of_pack, work.width, work.x, work.codes))
            run<256>(queue, work.rows, QuantizeRows<T, codes_of_pack>{work});
        else
            run<256>(queue, work.rows, QuantizeRows<T, 1>{work});
    });
}

int64_t num_ranges_of_columns(int64_t rows) {
    constexpr int64_t most = 64;
    const int64_t ranges = rows / 64;
    return ranges < 1 ? 1 : ranges < most ? ranges : most;
}

namespace {

template <class Quantize>
void run_squares(const Queue& queue, const Fp8Columns& work, int64_t num_ranges) {
    const auto squares = [](int64_t count) {
        return (count + Quantize::side - 1) / Quantize::side;
    };
    run<256>(queue, squares(work.rows) * squares(work.width), Quantize{work, num_ranges},
             Quantize::floats_of_team);
}

}  // namespace

void quantize_columns(const Queue& queue, const Fp8Columns& work) {
    const int64_t ranges = num_ranges_of_columns(work.rows);
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            using Find = FindLargest<T, decltype(size)::value>;
            const int64_t strips = (work.width + Find::columns_of_team - 1) / Find::columns_of_team;
            run<256>(queue, ranges * strips, Find{work, ranges});
            run_squares<QuantizeColumns<T, decltype(size)::value>>(queue, work, ranges);
        },
        work.x);
}

void quantize_columns_alike(const Queue& queue, const Fp8Columns& work) {
    constexpr int64_t no_ranges = 0;
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run_squares<QuantizeColumns<T, decltype(size)::value, true>>(queue, work, no_ranges);
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
