#include <cuda_fp8.h>

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

// A team transposes a square of codes in shared memory.
template <class T, int n>
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
            uint32_t largest = 0;
            for (int64_t range = 0; range < num_ranges; ++range)
                largest = Most()(largest, work.largest[range * work.width + first_column + column]);
            const int32_t exponent = exponent_of(largest, work.into_type);
            scales[column] = power_of_two(exponent);
            if (first_row == 0) work.factors[first_column + column] = power_of_two(-exponent);
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

void quantize_columns(const Queue& queue, const Fp8Columns& work) {
    const int64_t ranges = num_ranges_of_columns(work.rows);
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            using Find = FindLargest<T, decltype(size)::value>;
            using Quantize = QuantizeColumns<T, decltype(size)::value>;
            const int64_t strips = (work.width + Find::columns_of_team - 1) / Find::columns_of_team;
            run<256>(queue, ranges * strips, Find{work, ranges});
            const auto squares = [](int64_t count) {
                return (count + Quantize::side - 1) / Quantize::side;
            };
            run<256>(queue, squares(work.rows) * squares(work.width), Quantize{work, ranges},
                     Quantize::floats_of_team);
        },
        work.x);
}

}  // namespace ringshard::ops::gpu
