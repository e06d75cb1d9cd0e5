#include <cmath>

#include "numbers.cuh"
#include "weight_packs.cuh"

namespace ringshard::ops::gpu {

namespace {

template <int n>
struct SumBlock {
    const float* numbers;
    int64_t count;
    float* squares;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t begin = team.number() * elements_per_square;
        const int64_t left = count - begin;
        const int64_t mine = left < elements_per_square ? left : elements_per_square;
        const float sum = team.reduce(
            mine / n, 0.0F,
            [&](int64_t i) {
                const Floats<n> x = load<n>(numbers + begin + i * n);
                float part = 0;
                for (int k = 0; k < n; ++k) part += x[k] * x[k];
                return part;
            },
            Sum());
        team.each(1, [&](int64_t) { squares[team.number()] = sum; });
    }
};

template <class Copy, int n>
struct ScheduleFreeUpdate {
    ScheduleFree work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        for_packs<n>(team, work.count, [&](int64_t i) {
            Floats<n> x = load<n>(work.weights + i);
            Floats<n> d = load<n>(work.difference + i);
            if (work.gradient != nullptr) {
                Floats<n> v{};
                if (work.second_moment != nullptr) v = load<n>(work.second_moment + i);
                const Floats<n> g = load<n>(work.gradient + i);
                for (int k = 0; k < n; ++k) {
                    const float gradient = g[k] * work.gradient_scale;
                    v[k] = v[k] * work.second_keeps + gradient * gradient * work.second_takes;
                    const float root = sqrtf(v[k]) * work.root_scale + work.epsilon;
                    const float direction =
                        (work.second_moment == nullptr ? gradient : gradient / root) +
                        work.decay * (x[k] + work.ahead * d[k]);
                    const float reached = d[k] - work.step_size * direction;
                    x[k] = x[k] + work.average * reached;
                    d[k] = reached - work.average * reached;
                }
                store<n>(work.weights + i, x);
                store<n>(work.difference + i, d);
                if (work.second_moment != nullptr) store<n>(work.second_moment + i, v);
            }
            for (int k = 0; k < n; ++k) x[k] = x[k] + work.ahead * d[k];
            store<n>(static_cast<Copy*>(work.copy) + i, x);
        });
    }
};

}  // namespace

void sum_squares(const Queue& queue, const float* numbers, int64_t count, float* squares) {
    const int64_t blocks = (count + elements_per_square - 1) / elements_per_square;
    if (fits<float>(4, count, numbers))
        run<256>(queue, blocks, SumBlock<4>{numbers, count, squares});
    else
        run<256>(queue, blocks, SumBlock<1>{numbers, count, squares});
}

void schedule_free(const Queue& queue, const ScheduleFree& work) {
    const int64_t teams = teams_of_weights(work.count);
    with_type(work.copy_type, [&](auto* type) {
        using Copy = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        if (fits<float>(n, work.count, work.weights, work.difference, work.second_moment,
                        work.gradient) &&
            fits<Copy>(n, work.count, work.copy))
            run<256>(queue, teams, ScheduleFreeUpdate<Copy, n>{work});
        else
            run<256>(queue, teams, ScheduleFreeUpdate<Copy, 1>{work});
    });
}

}  // namespace ringshard::ops::gpu
