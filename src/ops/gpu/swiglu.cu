#include "numbers.cuh"
#include "sigmoid.cuh"
#include "team.cuh"

namespace ringshard::ops::gpu {

namespace {

template <class T, int n>
struct SwiGluForward {
    SwiGlu work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        const T* const gate = static_cast<const T*>(work.gate_up) + team.number() * 2 * work.width;
        const T* const up = gate + work.width;
        T* const product = static_cast<T*>(work.product) + team.number() * work.width;
        team.each(work.width / n, [&](int64_t i) {
            const Floats<n> u = load<n>(up + i * n);
            Floats<n> g = load<n>(gate + i * n);
            for (int k = 0; k < n; ++k) g[k] = g[k] * sigmoid(g[k]) * u[k];
            store<n>(product + i * n, g);
        });
    }
};

template <class T, int n>
struct SwiGluBackward {
    SwiGlu work;

#pragma nv_exec_check_disable
    template <class Team>
    __host__ __device__ void operator()(const Team& team) const {
        T* const gate = static_cast<T*>(work.gate_up) + team.number() * 2 * work.width;
        T* const up = gate + work.width;
        T* const product = static_cast<T*>(work.product) + team.number() * work.width;
        team.each(work.width / n, [&](int64_t i) {
            Floats<n> g = load<n>(gate + i * n);
            Floats<n> u = load<n>(up + i * n);
            Floats<n> d = load<n>(product + i * n);
            for (int k = 0; k < n; ++k) {
                const float s = sigmoid(g[k]);
                const float d_gate = d[k] * u[k] * s * (1.0F + g[k] * (1.0F - s));
                const float d_up = d[k] * g[k] * s;
                d[k] = g[k] * s * u[k];
                g[k] = d_gate;
                u[k] = d_up;
            }
            store<n>(gate + i * n, g);
            store<n>(up + i * n, u);
            if (work.makes_product) store<n>(product + i * n, d);
        });
    }
};

}  // namespace

void swiglu(const Queue& queue, const SwiGlu& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<256>(queue, work.rows, SwiGluForward<T, decltype(size)::value>{work});
        },
        work.gate_up, work.product);
}

void swiglu_backward(const Queue& queue, const SwiGlu& work) {
    with_packs(
        work.type, work.width,
        [&](auto* type, auto size) {
            using T = std::remove_pointer_t<decltype(type)>;
            run<256, 5>(queue, work.rows, SwiGluBackward<T, decltype(size)::value>{work});
        },
        work.gate_up, work.product);
}

}  // namespace ringshard::ops::gpu
