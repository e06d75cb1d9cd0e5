#include "fp8_codes.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

using namespace fp8;

namespace {

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

}  // namespace ringshard::ops::gpu
