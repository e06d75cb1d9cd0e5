#include <cmath>
#include <cstring>

#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// As many as leave room for one block on a multiprocessor: the rows of all blocks, 300 KB each for
// a vocabulary of 150,000, stay in the second-level cache between the two times that they are read.
constexpr int threads = 1024;

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

// The statistics of some logits after one pass over them, in a unit that no e^logit is above.
struct Seen {
    float largest;     // logit
    int place;         // of the first of the largest, or -1 where nothing was seen
    float exponent;    // of the unit
    Precise sum;       // of e^logit
    Precise weighted;  // sum of e^logit * power_of(logit)
};
RINGSHARD_BOTH Seen nothing_seen() {
    constexpr float below_all_units = -1e9F;
    return {-INFINITY, -1, below_all_units, {0, 0}, {0, 0}};
}

// The same in a larger unit.
RINGSHARD_BOTH Seen seen_from(const Seen& seen, float exponent) {
    const float moves = seen.exponent - exponent;
    const float scale = power_of_two(moves);
    const Precise weighted = seen.weighted + seen.sum * moves;
    return {seen.largest,
            seen.place,
            exponent,
            {seen.sum.number * scale, seen.sum.rest * scale},
            {weighted.number * scale, weighted.rest * scale}};
}

template <int n>
struct LogitsAt {
    Floats<n> logits;
    int place;
};

template <int n>
struct Join {
    // Of a thread: what it has seen, and its next logits.
    RINGSHARD_BOTH Seen operator()(const Seen& before, const LogitsAt<n>& next) const {
        Seen seen = before;
        for (int k = 0; k < n; ++k)
            if (next.logits[k] > seen.largest) {
                seen.largest = next.logits[k];
                seen.place = next.place + k;
            }
        const Unit unit = unit_of(ceilf(seen.largest * log2_of_e));
        float sum = 0;
        float weighted = 0;
        for (int k = 0; k < n; ++k) {
            const float power = power_of(next.logits[k], unit);
            const float e = exp2f(power);
            sum += e;
            weighted += e * power;
        }
        seen.exponent = unit.exponent;
        const float moves = before.exponent - unit.exponent;
        const float scale = power_of_two(moves);
        const float moved = fmaf(before.sum.number, moves, before.weighted.number);
        seen.weighted.number = fmaf(moved, scale, weighted);
        seen.sum.number = fmaf(before.sum.number, scale, sum);
        return seen;
    }

    // Of two threads.
    RINGSHARD_BOTH Seen operator()(const Seen& a, const Seen& b) const {
        const bool takes_b = b.largest > a.largest || (b.largest == a.largest && b.place < a.place);
        const float exponent = fmaxf(a.exponent, b.exponent);
        const Seen x = seen_from(a, exponent);
        const Seen y = seen_from(b, exponent);
        return {takes_b ? b.largest : a.largest, takes_b ? b.place : a.place, exponent,
                x.sum + y.sum, x.weighted + y.weighted};
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
RINGSHARD_BOTH LogOfSum log_of(const Seen& seen) {
    int exponent = 0;
    const float fraction = frexpf(seen.sum.number, &exponent);
    return {seen.exponent + static_cast<float>(exponent),
            logf(fraction) + seen.sum.rest * (1 / seen.sum.number)};
}
RINGSHARD_BOTH Precise natural(const LogOfSum& log_sum) {
    return times_log_of_2({log_sum.exponent, 0}) + Precise{log_sum.rest, 0};
}

// Returns the logarithm of the sum less the mean logit, which is seen in powers of two.
RINGSHARD_BOTH float entropy_of(const Seen& seen, const LogOfSum& log_sum) {
    const Precise mean = quotient(seen.weighted, seen.sum);
    const Precise above_mean =
        Precise{log_sum.exponent - seen.exponent, 0} + Precise{-mean.number, -mean.rest};
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
        const int64_t row = work.tokens - 1 - team.number();
        T* const logits = static_cast<T*>(work.logits) + row * width;
        const int64_t target = work.targets[row];
        const Seen seen = team.reduce(
            width / n, nothing_seen(),
            [&](int64_t i) {
                return LogitsAt<n>{load<n>(logits + i * n), static_cast<int>(i * n)};
            },
            Join<n>());
        const LogOfSum log_sum = log_of(seen);
        const float of_target = to_float(logits[target]);

        const float surprise = rounded(natural(log_sum) + Precise{-of_target, 0});
        float loss = surprise < 0 ? 0 : surprise;
        float weight = 1.0F;
        if (work.times_probability) {
            weight = expf(-loss);
            loss *= weight;
        }
        if (work.smoothing > 0) {
            const Precise below = team.reduce(
                width / n, Precise{0, 0},
                [&](int64_t i) {
                    const Floats<n> numbers = load<n>(logits + i * n);
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += numbers[k] - seen.largest;
                    return sum;
                },
                PreciseSum());
            const float mean = rounded(below) / static_cast<float>(width);
            const float of_all = rounded(natural(log_sum) + Precise{-seen.largest, -mean});
            loss = (1 - work.smoothing) * loss + work.smoothing * weight * of_all;
        }
        if (work.weights != nullptr) {
            loss *= work.weights[row];
            weight *= work.weights[row];
        }
        team.each(1, [&](int64_t) {
            float* const numbers = work.token_stats + row * 3;
            numbers[0] = loss;
            numbers[1] = entropy_of(seen, log_sum);
            numbers[2] = seen.place == target ? 1.0F : 0.0F;
        });
        if (!work.writes_gradient) return;

        team.sync();  // all threads have read the target's logit
        const float scale = weight * work.gradient_scale;
        const float everywhere = scale * work.smoothing / static_cast<float>(width);
        const float at_target = scale * (1 - work.smoothing);
        Unit unit = unit_of(log_sum.exponent);
        unit.rest -= log_sum.rest * log2_of_e;  // so that powers are those of probabilities
        team.each(width / n, [&](int64_t i) {
            Floats<n> numbers = load<n>(logits + i * n);
            for (int k = 0; k < n; ++k)
                numbers[k] = scale * exp2f(power_of(numbers[k], unit)) - everywhere -
                             (i * n + k == target ? at_target : 0.0F);
            store<n>(logits + i * n, numbers);
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
