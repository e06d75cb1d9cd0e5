#include <cmath>
#include <cstring>

#include "numbers.cuh"
#include "team.cuh"

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

// Returns 32 random-looking bits for a place and a step: the same as on the host.
RINGSHARD_BOTH uint32_t mixed(uint32_t place, uint32_t step) {
    uint32_t bits = place * 0x9e3779b9U ^ step;
    bits = (bits ^ bits >> 16) * 0x85ebca6bU;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35U;
    return bits ^ bits >> 16;
}

// chance: 16 random bits. Rounds up if the bits that are cut off exceed them.
RINGSHARD_BOTH float rounded_for(const float*, float value, uint32_t) { return value; }
RINGSHARD_BOTH float rounded_for(const bf16*, float value, uint32_t chance) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bits = (bits + chance) & 0xffff0000U;
    memcpy(&value, &bits, sizeof(bits));
    return value;
}

constexpr int64_t weights_per_team = 4096;

// Calls update(i) for each pack of n of the team's weights: i is the number of its first one.
#pragma nv_exec_check_disable
template <int n, class Team, class Update>
RINGSHARD_BOTH void for_packs(const Team& team, int64_t count, Update update) {
    const int64_t begin = team.number() * weights_per_team;
    const int64_t left = count - begin;
    const int64_t mine = left < weights_per_team ? left : weights_per_team;
    team.each(mine / n, [&](int64_t i) { update(begin + i * n); });
}

template <class Moment, int n>
struct AdamWUpdate {
    AdamW work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        Moment* const first_moment = static_cast<Moment*>(work.first_moment);
        Moment* const second_moment = static_cast<Moment*>(work.second_moment);
        for_packs<n>(team, work.count, [&](int64_t i) {
            Floats<n> w = load<n>(work.weights + i);
            Floats<n> m = load<n>(first_moment + i);
            Floats<n> v = load<n>(second_moment + i);
            const Floats<n> g = load<n>(work.gradient + i);
            for (int k = 0; k < n; ++k) {
                const float gradient = g[k] * work.gradient_scale;
                const float first = m[k] * work.first_keeps + gradient * work.first_takes;
                const float second =
                    v[k] * work.second_keeps + gradient * gradient * work.second_takes;
                const uint32_t chance =
                    mixed(static_cast<uint32_t>(work.first_place + i + k), work.step);
                m[k] = rounded_for(first_moment, first, chance & 0xffffU);
                v[k] = rounded_for(second_moment, second, chance >> 16);
                w[k] = w[k] * work.decay -
                       work.step_size * first / (sqrtf(second) * work.root_scale + work.epsilon);
            }
            store<n>(work.weights + i, w);
            store<n>(first_moment + i, m);
            store<n>(second_moment + i, v);
            if (work.copy != nullptr) store<n>(static_cast<bf16*>(work.copy) + i, w);
        });
    }
};

template <class Moment, int n>
struct LionUpdate {
    Lion work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        Moment* const moments = static_cast<Moment*>(work.moment);
        for_packs<n>(team, work.count, [&](int64_t i) {
            Floats<n> w = load<n>(work.weights + i);
            Floats<n> m = load<n>(moments + i);
            const Floats<n> g = load<n>(work.gradient + i);
            for (int k = 0; k < n; ++k) {
                const float gradient = g[k] * work.gradient_scale;
                const float mean = m[k] * work.direction_keeps + gradient * work.direction_takes;
                const float direction = static_cast<float>(mean > 0) - static_cast<float>(mean < 0);
                const uint32_t chance =
                    mixed(static_cast<uint32_t>(work.first_place + i + k), work.step);
                m[k] = rounded_for(moments, m[k] * work.moment_keeps + gradient * work.moment_takes,
                                   chance & 0xffffU);
                w[k] = w[k] * work.decay - work.step_size * direction;
            }
            store<n>(work.weights + i, w);
            store<n>(moments + i, m);
            if (work.copy != nullptr) store<n>(static_cast<bf16*>(work.copy) + i, w);
        });
    }
};

template <class Moment, int n>
struct RmspropUpdate {
    Rmsprop work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        Moment* const moments = static_cast<Moment*>(work.moment);
        for_packs<n>(team, work.count, [&](int64_t i) {
            Floats<n> w = load<n>(work.weights + i);
            Floats<n> v = load<n>(moments + i);
            const Floats<n> g = load<n>(work.gradient + i);
            for (int k = 0; k < n; ++k) {
                const float gradient = g[k] * work.gradient_scale + w[k] * work.decay;
                const float mean = v[k] * work.keeps + gradient * gradient * work.takes;
                const uint32_t chance =
                    mixed(static_cast<uint32_t>(work.first_place + i + k), work.step);
                v[k] = rounded_for(moments, mean, chance & 0xffffU);
                w[k] = w[k] - work.step_size * gradient / (sqrtf(mean) + work.epsilon);
            }
            store<n>(work.weights + i, w);
            store<n>(moments + i, v);
            if (work.copy != nullptr) store<n>(static_cast<bf16*>(work.copy) + i, w);
        });
    }
};

template <class Moment, int n>
struct SgdUpdate {
    Sgd work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        Moment* const momenta = static_cast<Moment*>(work.momentum);
        for_packs<n>(team, work.count, [&](int64_t i) {
            Floats<n> w = load<n>(work.weights + i);
            Floats<n> m{};
            if (momenta != nullptr) m = load<n>(momenta + i);
            const Floats<n> g = load<n>(work.gradient + i);
            for (int k = 0; k < n; ++k) {
                const float gradient = g[k] * work.gradient_scale + w[k] * work.decay;
                const float sum = m[k] * work.momentum_keeps + gradient * work.momentum_takes;
                const uint32_t chance =
                    mixed(static_cast<uint32_t>(work.first_place + i + k), work.step);
                const float step = work.nesterov ? gradient + work.momentum_keeps * sum : sum;
                m[k] = rounded_for(momenta, sum, chance & 0xffffU);
                w[k] = w[k] - work.step_size * step;
            }
            store<n>(work.weights + i, w);
            if (momenta != nullptr) store<n>(momenta + i, m);
            if (work.copy != nullptr) store<n>(static_cast<bf16*>(work.copy) + i, w);
        });
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

void adamw(const Queue& queue, const AdamW& work) {
    const int64_t teams = (work.count + weights_per_team - 1) / weights_per_team;
    with_type(work.moment_type, [&](auto* type) {
        using Moment = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        if (fits<float>(n, work.count, work.weights, work.gradient) &&
            fits<Moment>(n, work.count, work.first_moment, work.second_moment) &&
            fits<bf16>(n, work.count, work.copy))
            run<256>(queue, teams, AdamWUpdate<Moment, n>{work});
        else
            run<256>(queue, teams, AdamWUpdate<Moment, 1>{work});
    });
}

void sgd(const Queue& queue, const Sgd& work) {
    const int64_t teams = (work.count + weights_per_team - 1) / weights_per_team;
    with_type(work.moment_type, [&](auto* type) {
        using Moment = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        if (fits<float>(n, work.count, work.weights, work.gradient) &&
            fits<Moment>(n, work.count, work.momentum) && fits<bf16>(n, work.count, work.copy))
            run<256>(queue, teams, SgdUpdate<Moment, n>{work});
        else
            run<256>(queue, teams, SgdUpdate<Moment, 1>{work});
    });
}

void schedule_free(const Queue& queue, const ScheduleFree& work) {
    const int64_t teams = (work.count + weights_per_team - 1) / weights_per_team;
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

namespace {

// Of one moment.
template <template <class, int> class Update, class Work>
void run_update(const Queue& queue, const Work& work) {
    const int64_t teams = (work.count + weights_per_team - 1) / weights_per_team;
    with_type(work.moment_type, [&](auto* type) {
        using Moment = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        if (fits<float>(n, work.count, work.weights, work.gradient) &&
            fits<Moment>(n, work.count, work.moment) && fits<bf16>(n, work.count, work.copy))
            run<256>(queue, teams, Update<Moment, n>{work});
        else
            run<256>(queue, teams, Update<Moment, 1>{work});
    });
}

}  // namespace

void lion(const Queue& queue, const Lion& work) { run_update<LionUpdate>(queue, work); }

void rmsprop(const Queue& queue, const Rmsprop& work) { run_update<RmspropUpdate>(queue, work); }

}  // namespace ringshard::ops::gpu
