#include <cmath>
#include <cstring>

#include "numbers.cuh"
#include "weight_packs.cuh"

// Updates by a rule (ops/updates.hpp). With moments in 8 bits a team updates one block of weights.
namespace ringshard::ops::gpu {

namespace {

constexpr int block = 256;  // weights that share a maximum, and values of a code

// The code of the value nearest to a number between -1 and 1: how many middles between neighbours
// lie below it, in eight steps.
RINGSHARD_BOTH uint8_t nearest(const float* values, float number) {
    int code = 0;
    for (int step = block / 2; step > 0; step /= 2) {
        const int last = code + step - 1;
        if (last + 1 < block && (values[last] + values[last + 1]) / 2 < number) code += step;
    }
    return static_cast<uint8_t>(code);
}

struct Largest {
    RINGSHARD_BOTH float operator()(float a, float b) const { return a > b ? a : b; }
};

RINGSHARD_BOTH float scale_of(float most) { return 1.0F / (most > 1e-38F ? most : 1e-38F); }

RINGSHARD_BOTH float between(float number) {
    return number < -1.0F ? -1.0F : number > 1.0F ? 1.0F : number;
}

template <class Rule>
struct BlockUpdate {
    CodedUpdate work;
    Rule rule;

    struct Moments {
        float numbers[Rule::num_moments];
    };

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t begin = team.number() * block;
        auto own = team.template own<Moments, 1>();
        team.each_own(block, own, [&](int64_t i, Moments& moments) {
            const int64_t at = begin + i;
            for (int k = 0; k < Rule::num_moments; ++k) {
                const CodedMoment& coded = work.moments[k];
                moments.numbers[k] = coded.values[coded.codes[at]] * coded.maxima[team.number()];
            }
            const float w = rule(work.weights[at], work.gradient[at], moments.numbers);
            work.weights[at] = w;
            if (work.copy != nullptr) store<1>(static_cast<bf16*>(work.copy) + at, Floats<1>{w});
        });
        for (int k = 0; k < Rule::num_moments; ++k) {
            const CodedMoment& coded = work.moments[k];
            const float most = team.reduce_own(
                block, own, 0.0F,
                [=](int64_t, Moments& moments) { return fabsf(moments.numbers[k]); }, Largest());
            team.each_own(block, own, [&](int64_t i, Moments& moments) {
                coded.codes[begin + i] =
                    nearest(coded.values, between(moments.numbers[k] * scale_of(most)));
            });
            team.each(1, [&](int64_t) { coded.maxima[team.number()] = most; });
        }
    }
};

// chance: 16 random bits. Rounds up if the bits that are cut off exceed them.
RINGSHARD_BOTH float rounded_for(const float*, float value, uint32_t) { return value; }
RINGSHARD_BOTH float rounded_for(const bf16*, float value, uint32_t chance) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bits = (bits + chance) & 0xffff0000U;
    memcpy(&value, &bits, sizeof(bits));
    return value;
}

template <class Rule, class Moment, int n>
struct RangeUpdate {
    Update work;
    Rule rule;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        for_packs<n>(team, work.count, [&](int64_t i) {
            Floats<n> w = load<n>(work.weights + i);
            Floats<n> moments[most_moments];
            for (int m = 0; m < Rule::num_moments; ++m) moments[m] = load<n>(moment(m) + i);
            const Floats<n> g = load<n>(work.gradient + i);
            for (int k = 0; k < n; ++k) {
                float numbers[most_moments];
                for (int m = 0; m < Rule::num_moments; ++m) numbers[m] = moments[m][k];
                w[k] = rule(w[k], g[k], numbers);
                const uint32_t chance =
                    random_bits(static_cast<uint32_t>(work.first_place + i + k), work.step);
                for (int m = 0; m < Rule::num_moments; ++m)
                    moments[m][k] = rounded_for(moment(m), numbers[m], chance >> 16 * m & 0xffffU);
            }
            store<n>(work.weights + i, w);
            for (int m = 0; m < Rule::num_moments; ++m) store<n>(moment(m) + i, moments[m]);
            if (work.copy != nullptr) store<n>(static_cast<bf16*>(work.copy) + i, w);
        });
    }

    RINGSHARD_BOTH Moment* moment(int number) const {
        return static_cast<Moment*>(work.moments[number]);
    }
};

template <class Rule>
void update_by(const Queue& queue, const Update& work, const Rule& rule) {
    with_type(work.moment_type, [&](auto* type) {
        using Moment = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        const int64_t teams = teams_of_weights(work.count);
        if (fits<float>(n, work.count, work.weights, work.gradient) &&
            fits<Moment>(n, work.count, work.moments[0], work.moments[1]) &&
            fits<bf16>(n, work.count, work.copy))
            run<256>(queue, teams, RangeUpdate<Rule, Moment, n>{work, rule});
        else
            run<256>(queue, teams, RangeUpdate<Rule, Moment, 1>{work, rule});
    });
}

template <class Rule>
void update_coded_by(const Queue& queue, const CodedUpdate& work, const Rule& rule) {
    if constexpr (Rule::num_moments > 0)
        run<256>(queue, work.blocks, BlockUpdate<Rule>{work, rule});
}

}  // namespace

void update(const Queue& queue, const Update& work, const UpdateRule& rule) {
    std::visit([&](const auto& known) { update_by(queue, work, known); }, rule);
}

void coded_update(const Queue& queue, const CodedUpdate& work, const UpdateRule& rule) {
    std::visit([&](const auto& known) { update_coded_by(queue, work, known); }, rule);
}

}  // namespace ringshard::ops::gpu
