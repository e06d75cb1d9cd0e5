#include <cmath>

#include "numbers.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

// A team merges one head of one query. The weights are the shares of the sums of exponentials.
template <class T, int n>
struct MergeHead {
    MergeAttention work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const int64_t h = team.number() % work.heads;
        const int64_t t = team.number() / work.heads % work.t;
        const int64_t i = team.number() / work.heads / work.t;
        float* const out =
            work.out + i * work.out_stride_n + t * work.out_stride_t + h * work.width;
        float* const place = work.lse + i * work.lse_stride_n + t * work.lse_stride_t + h;
        const T* const more = static_cast<const T*>(work.more_out) + team.number() * work.width;
        const float lse = *place;
        const float more_lse =
            work.more_lse[i * work.more_lse_stride_n + t * work.more_lse_stride_t +
                          h * work.more_lse_stride_h];
        const float largest = lse > more_lse ? lse : more_lse;
        const float keep = expf(lse - largest);
        const float take = expf(more_lse - largest);
        const float sum = keep + take;
        team.sync();  // all threads have read the old sum
        team.each(1, [&](int64_t) { *place = largest + logf(sum); });
        team.each(work.width / n, [&](int64_t k) {
            Floats<n> numbers = load<n>(out + k * n);
            const Floats<n> others = load<n>(more + k * n);
            for (int e = 0; e < n; ++e)
                numbers[e] = keep / sum * numbers[e] + take / sum * others[e];
            store<n>(out + k * n, numbers);
        });
    }
};

}  // namespace

void merge_attention(const Queue& queue, const MergeAttention& work) {
    with_type(work.type, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        constexpr int n = 4;
        const int64_t teams = work.n * work.t * work.heads;
        if (fits<T>(n, work.width, work.more_out) && fits<float>(n, work.width, work.out) &&
            work.out_stride_n % n == 0 && work.out_stride_t % n == 0)
            run<warp_size>(queue, teams, MergeHead<T, n>{work});
        else
            run<warp_size>(queue, teams, MergeHead<T, 1>{work});
    });
}

}  // namespace ringshard::ops::gpu
