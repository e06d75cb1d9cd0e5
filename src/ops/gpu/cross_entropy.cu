#include <cmath>

#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// As many as leave room for one block on a multiprocessor: the rows of all blocks, 300 KB each for
// a vocabulary of 150,000, stay in the second-level cache between the two times that they are read.
constexpr int threads = 1024;

// The statistics of some logits after one pass over them. e = e^(logit - largest).
struct Seen {
    float largest;
    float sum;       // of e
    float weighted;  // of e * (logit - largest)
    int place;       // of the first of the largest, or -1 where nothing was seen
};

// The same, said with another, larger or equal, largest.
RINGSHARD_BOTH Seen seen_from(const Seen& seen, float largest) {
    if (seen.place < 0) return seen;
    const float below = seen.largest - largest;
    const float factor = expf(below);
    return {largest, seen.sum * factor, (seen.weighted + seen.sum * below) * factor, seen.place};
}

struct Join {
    RINGSHARD_BOTH Seen operator()(const Seen& a, const Seen& b) const {
        if (a.place < 0) return b;
        if (b.place < 0) return a;
        const bool takes_b = b.largest > a.largest || (b.largest == a.largest && b.place < a.place);
        const float largest = takes_b ? b.largest : a.largest;
        const Seen x = seen_from(a, largest);
        const Seen y = seen_from(b, largest);
        return {largest, x.sum + y.sum, x.weighted + y.weighted, takes_b ? b.place : a.place};
    }
};

template <int n>
RINGSHARD_BOTH Seen look_at(const Floats<n>& logits, int64_t first_place) {
    Seen seen{logits[0], 0, 0, static_cast<int>(first_place)};
    for (int k = 1; k < n; ++k)
        if (logits[k] > seen.largest) {
            seen.largest = logits[k];
            seen.place = static_cast<int>(first_place) + k;
        }
    for (int k = 0; k < n; ++k) {
        const float below = logits[k] - seen.largest;
        const float e = expf(below);
        seen.sum += e;
        seen.weighted += e * below;
    }
    return seen;
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
            width / n, Seen{0, 0, 0, -1},
            [&](int64_t i) { return look_at<n>(load<n>(logits + i * n), i * n); }, Join());
        const float log_sum = logf(seen.sum);
        const float of_target = to_float(logits[target]) - seen.largest;

        float loss = log_sum - of_target;
        float weight = 1.0F;
        if (work.times_probability) {
            weight = expf(-loss);
            loss *= weight;
        }
        if (work.smoothing > 0) {
            const float below = team.reduce(
                width / n, 0.0F,
                [&](int64_t i) {
                    const Floats<n> numbers = load<n>(logits + i * n);
                    float sum = 0;
                    for (int k = 0; k < n; ++k) sum += numbers[k] - seen.largest;
                    return sum;
                },
                Sum());
            const float mean = below / static_cast<float>(width);
            loss = (1 - work.smoothing) * loss + work.smoothing * weight * (log_sum - mean);
        }
        if (work.weights != nullptr) {
            loss *= work.weights[row];
            weight *= work.weights[row];
        }
        team.each(1, [&](int64_t) {
            float* const numbers = work.token_stats + row * 3;
            numbers[0] = loss;
            numbers[1] = log_sum - seen.weighted / seen.sum;
            numbers[2] = seen.place == target ? 1.0F : 0.0F;
        });
        if (!work.writes_gradient) return;

        team.sync();  // all threads have read the target's logit
        const float scale = weight * work.gradient_scale;
        const float everywhere = scale * work.smoothing / static_cast<float>(width);
        const float at_target = scale * (1 - work.smoothing);
        team.each(width / n, [&](int64_t i) {
            Floats<n> numbers = load<n>(logits + i * n);
            for (int k = 0; k < n; ++k)
                numbers[k] = scale * expf(numbers[k] - seen.largest - log_sum) - everywhere -
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
