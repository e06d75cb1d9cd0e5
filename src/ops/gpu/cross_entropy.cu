#include <cmath>
#include <cstring>

#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// As many as leave room for one block on a multiprocessor: the rows of all blocks, 300 KB each for
// a vocabulary of 150,000, stay in the second-level cache between the two times that they are read.
constexpr int threads = 1024;
// Packs that a thread reads before it computes with the first.
constexpr int packs_at_once = 4;

// A number in two: the rest is what fp32 rounds off the first. Sums of a whole vocabulary keep it
// where those of threads meet. Before, each thread adds its share in fp32: its errors and those of
// a thousand others are as often above as below.
struct Precise {
    float number;
    float rest;
};
RINGSHARD_BOTH Precise operator+(const Precise& a, const Precise& b) {
    const float sum = a.number + b.number;
    const float of_b = sum - a.number;
    const float rounded_off = (a.number - (sum - of_b)) + (b.number - of_b);
    return {sum, rounded_off + (a.rest + b.rest)};
}
RINGSHARD_BOTH Precise operator*(const Precise& a, float b) {
    const float number = a.number * b;
    return {number, fmaf(a.number, b, -number) + a.rest * b};
}
RINGSHARD_BOTH Precise quotient(const Precise& a, const Precise& b) {
    const float inverse = 1 / b.number;
    const float number = a.number * inverse;
    const float left = fmaf(-number, b.number, a.number) + fmaf(-number, b.rest, a.rest);
    return {number, left * inverse};
}
RINGSHARD_BOTH float rounded(const Precise& a) { return a.number + a.rest; }

constexpr float log2_of_e = 1.44269504F;
RINGSHARD_BOTH Precise times_log_of_2(const Precise& a) {
    constexpr float rounded_off = -1.90465432e-9F;
    const Precise product = a * 0.693147182F;
    return {product.number, fmaf(a.number, rounded_off, product.rest)};
}

// 2^exponent, beside which sums of e^logit are kept: they move to another without an error.
struct Unit {
    float exponent;  // whole
    float logit;     // its logarithm in fp32
    float rest;      // log2(e^logit) - exponent
};
RINGSHARD_BOTH Unit unit_of(float exponent) {
    const Precise logarithm = times_log_of_2({exponent, 0});
    return {exponent, logarithm.number, -logarithm.rest * log2_of_e};
}
// Returns log2(e^logit / 2^exponent).
RINGSHARD_BOTH float power_of(float logit, const Unit& unit) {
    return fmaf(logit - unit.logit, log2_of_e, unit.rest);
}

// Of a number that is not above 0 by much; 0 below the normal numbers. exp2f has twice as many
// instructions, for those.
__device__ __forceinline__ float fast_exp2(float power) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(power));
    return result;
}
RINGSHARD_BOTH float exp2_of(float power) {
    NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return fast_exp2(power);), (return exp2f(power);))
}

// Returns 2^whole, of a number that is not above 0; 0 below the normal numbers.
RINGSHARD_BOTH float power_of_two(float whole) {
    constexpr float lowest = -127;
    constexpr int bits_of_fraction = 23;
    // The last bits of this number are those of whole + 127, which is the exponent of the power.
    const float shifted = fmaxf(whole, lowest) + ((1 << bits_of_fraction) - lowest);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits <<= bits_of_fraction;
    float power;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

constexpr float beyond_the_end = -1e30F;

// The packs of a row that a thread reads at once: neighbours belong to other threads.
template <class T, int n>
struct Packs {
    Pack<T, n> packs[packs_at_once];
};
// The packs of a row, of which a thread reads from its first one on those that are `threads` apart.
template <class T, int n>
struct Row {
    T* logits;
    int count;  // of packs

    RINGSHARD_BOTH static constexpr int distance() { return packs_at_once * threads; }
    RINGSHARD_BOTH T* at(int pack) const { return logits + static_cast<int64_t>(pack) * n; }
    // e^logit of those beyond the end is 0.
    RINGSHARD_BOTH Packs<T, n> packs_from(int first) const {
        Packs<T, n> all;
        for (int u = 0; u < packs_at_once; ++u)
            if (first + u * threads < count)
                all.packs[u] = load_pack<n>(at(first + u * threads));
            else
                for (int k = 0; k < n; ++k) put(all.packs[u].numbers[k], beyond_the_end);
        return all;
    }
};

// The first pack with the largest logit.
struct Largest {
    float logit;
    int pack;
    RINGSHARD_BOTH static Largest nothing() { return {beyond_the_end, 0}; }
    RINGSHARD_BOTH Largest operator()(const Largest& a, const Largest& b) const {
        return b.logit > a.logit || (b.logit == a.logit && b.pack < a.pack) ? b : a;
    }
};

// In a unit that no e^logit is above.
struct Sums {
    Precise e;         // of e^logit
    Precise weighted;  // of e^logit * power_of(logit)
    RINGSHARD_BOTH Sums operator()(const Sums& a, const Sums& b) const {
        return {a.e + b.e, a.weighted + b.weighted};
    }
};

// The logits that a thread has seen.
struct Seen {
    Largest largest;
    float exponent;  // of the unit
    float e;
    float weighted;

    RINGSHARD_BOTH static Seen nothing() {
        constexpr float below_all_units = -1e9F;
        return {Largest::nothing(), below_all_units, 0, 0};
    }

    template <class T, int n>
    RINGSHARD_BOTH void add(const Packs<T, n>& next, int first) {
        for (int u = 0; u < packs_at_once; ++u) {
            const Floats<n> logits = to_floats<n>(next.packs[u]);
            float most = logits[0];
            for (int k = 1; k < n; ++k) most = fmaxf(most, logits[k]);
            if (most > largest.logit) largest = {most, first + u * threads};
        }
        const Unit unit = unit_of(ceilf(largest.logit * log2_of_e));
        float sum = 0;
        float of_powers = 0;
        for (int u = 0; u < packs_at_once; ++u) {
            const Floats<n> logits = to_floats<n>(next.packs[u]);
            for (int k = 0; k < n; ++k) {
                const float power = power_of(logits[k], unit);
                const float number = exp2_of(power);
                sum += number;
                of_powers += number * power;
            }
        }
        const float moves = exponent - unit.exponent;
        const float scale = power_of_two(moves);
        weighted = fmaf(fmaf(e, moves, weighted), scale, of_powers);
        e = fmaf(e, scale, sum);
        exponent = unit.exponent;
    }

    RINGSHARD_BOTH Sums in(const Unit& unit) const {
        const float moves = exponent - unit.exponent;
        const float scale = power_of_two(moves);
        const Precise moved = Precise{weighted, 0} + Precise{e, 0} * moves;
        return {{e * scale, 0}, {moved.number * scale, moved.rest * scale}};
    }
};

// Sums as a thread and as threads add them.
struct PreciseSum {
    RINGSHARD_BOTH Precise operator()(const Precise& a, float b) const { return {a.number + b, 0}; }
    RINGSHARD_BOTH Precise operator()(const Precise& a, const Precise& b) const { return a + b; }
};

// The logarithm of the sum of all e^logit.
struct LogOfSum {
    float exponent;  // of the part that is a power of two
    float rest;      // the natural logarithm of the other
};
RINGSHARD_BOTH LogOfSum log_of(const Precise& sum, const Unit& unit) {
    int exponent = 0;
    const float fraction = frexpf(sum.number, &exponent);
    return {unit.exponent + static_cast<float>(exponent),
            logf(fraction) + sum.rest * (1 / sum.number)};
}
RINGSHARD_BOTH Precise natural(const LogOfSum& log_sum) {
    return times_log_of_2({log_sum.exponent, 0}) + Precise{log_sum.rest, 0};
}

// Returns the logarithm of the sum less the mean logit, which is seen in powers of two.
RINGSHARD_BOTH float entropy_of(const Sums& sums, const Unit& unit, const LogOfSum& log_sum) {
    const Precise mean = quotient(sums.weighted, sums.e);
    const Precise above_mean =
        Precise{log_sum.exponent - unit.exponent, 0} + Precise{-mean.number, -mean.rest};
    return rounded(times_log_of_2(above_mean) + Precise{log_sum.rest, 0});
}

template <class T, int n>
struct LossOfToken {
    CrossEntropy work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t width = work.vocabulary;
        // From the last row, for the product has just written it.
        const int64_t number = work.tokens - 1 - team.number();
        const Row<T, n> row{static_cast<T*>(work.logits) + number * width,
                            static_cast<int>(width / n)};
        const int target = static_cast<int>(work.targets[number]);
        const float of_target = to_float(row.logits[target]);
        auto own = team.template own<Seen, 1>();
        team.each_own(threads, own, [&](int64_t thread, Seen& seen) {
            seen = Seen::nothing();
            for (int first = static_cast<int>(thread); first < row.count; first += row.distance())
                seen.add<T, n>(row.packs_from(first), first);
        });
        const Largest largest = team.reduce_own(
            threads, own, Largest::nothing(),
            [](int64_t, const Seen& seen) { return seen.largest; }, Largest());
        const Unit unit = unit_of(ceilf(largest.logit * log2_of_e));
        const Sums sums = team.reduce_own(
            threads, own, Sums{{0, 0}, {0, 0}},
            [&](int64_t, const Seen& seen) { return seen.in(unit); }, Sums());
        const LogOfSum log_sum = log_of(sums.e, unit);
        const Pack<T, n> with_largest = load_pack<n>(row.at(largest.pack));

        const float surprise = rounded(natural(log_sum) + Precise{-of_target, 0});
        float loss = surprise < 0 ? 0 : surprise;
        float weight = 1.0F;
        if (work.times_probability) {
            weight = expf(-loss);
            loss *= weight;
        }
        if (work.smoothing > 0) {
            const Precise below = team.reduce(
                row.count, Precise{0, 0},
                [&](int64_t i) {
                    const Floats<n> numbers = load<n>(row.logits + i * n);
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += numbers[k] - largest.logit;
                    return sum;
                },
                PreciseSum());
            const float mean = rounded(below) / static_cast<float>(width);
            const float of_all = rounded(natural(log_sum) + Precise{-largest.logit, -mean});
            loss = (1 - work.smoothing) * loss + work.smoothing * weight * of_all;
        }
        if (work.weights != nullptr) {
            loss *= work.weights[number];
            weight *= work.weights[number];
        }
        team.sync();  // all threads have read the target's logit and the largest ones
        team.each(1, [&](int64_t) {
            const Floats<n> logits = to_floats<n>(with_largest);
            int place = n;
            for (int k = n - 1; k >= 0; --k)
                if (logits[k] == largest.logit) place = k;
            float* const numbers = work.token_stats + number * 3;
            numbers[0] = loss;
            numbers[1] = entropy_of(sums, unit, log_sum);
            numbers[2] = largest.pack * n + place == target ? 1.0F : 0.0F;
        });
        if (!work.writes_gradient) return;

        const float scale = weight * work.gradient_scale;
        const float everywhere = scale * work.smoothing / static_cast<float>(width);
        const float at_target = scale * (1 - work.smoothing);
        Unit of_sum = unit_of(log_sum.exponent);
        of_sum.rest -= log_sum.rest * log2_of_e;  // so that powers are those of probabilities
        team.each(threads, [&](int64_t thread) {
            for (int first = static_cast<int>(thread); first < row.count; first += row.distance()) {
                const Packs<T, n> next = row.packs_from(first);
                for (int u = 0; u < packs_at_once; ++u) {
                    const int pack = first + u * threads;
                    if (pack >= row.count) continue;
                    Floats<n> numbers = to_floats<n>(next.packs[u]);
                    for (int k = 0; k < n; ++k)
                        numbers[k] = scale * exp2_of(power_of(numbers[k], of_sum)) - everywhere;
                    if (pack == target / n)
                        for (int k = 0; k < n; ++k)
                            numbers[k] -= k == target % n ? at_target : 0.0F;
                    store<n>(row.at(pack), numbers);
                }
            }
        });
    }
};

}  // namespace

void cross_entropy(const Queue& queue, const CrossEntropy& work) {
    with_packs(
        work.type, work.vocabulary,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<threads>(queue, work.tokens, LossOfToken<T, decltype(size)::value>{work});
        },
        work.logits);
}

}  // namespace ringshard::ops::gpu
