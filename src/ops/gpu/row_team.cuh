#pragma once

#include "numbers.cuh"
#include "range.cuh"
#include "team.cuh"

// Teams of norms, whose threads have columns of a row in registers.
namespace ringshard::ops::gpu {

// Calls `work` with threads_of_row(width), known when it is compiled.
template <int threads>
struct TeamSize {
    static constexpr int value = threads;
};
template <class Work>
void with_team(int64_t width, Work work) {
    switch (threads_of_row(width)) {
        case 128: return work(TeamSize<128>());
        case 256: return work(TeamSize<256>());
        case 512: return work(TeamSize<512>());
        default: return work(TeamSize<1024>());
    }
}

// Throws if a row has more columns than the largest team has registers for.
inline void check_width(int64_t width, int64_t most) {
    if (width > most)
        throw std::runtime_error("a norm of " + std::to_string(width) +
                                 " columns: the kernels take " + std::to_string(most));
}

// Calls `work` with the most packs of a row that a thread of the team has.
template <int n, int threads, class Work>
void with_packs_of_thread(int64_t width, Work work) {
    const int64_t packs = (width / n + threads - 1) / threads;
    // As many as fit into registers: of rows of 16,384 columns, or of the heads of a warp.
    constexpr int64_t columns = threads == warp_size ? widest_head_of_warp / warp_size : 16;
    constexpr int most = columns / n;
    if constexpr (n > 1)
        if (packs == 1) return work(PackSize<1>());
    check_width(width, most * n * threads);
    work(PackSize<most>());
}

// A pack that a thread has in registers from one phase to the next; where a thread has more than
// one, it reads them again, from the cache. `ahead` starts a read whose pack only a later phase
// needs.
template <class Pack, bool stays>
struct Kept {
    Pack pack;
    template <class Load>
    RINGSHARD_BOTH Pack first(Load load) {
        return pack = load();
    }
    template <class Load>
    RINGSHARD_BOTH void ahead(Load load) {
        pack = load();
    }
    template <class Load>
    RINGSHARD_BOTH Pack again(Load) const {
        return pack;
    }
};
template <class Pack>
struct Kept<Pack, false> {
    template <class Load>
    RINGSHARD_BOTH Pack first(Load load) {
        return load();
    }
    template <class Load>
    RINGSHARD_BOTH void ahead(Load) {}
    template <class Load>
    RINGSHARD_BOTH Pack again(Load load) const {
        return load();
    }
};
template <class T, int n, int packs>
using KeptPack = Kept<Pack<T, n>, packs == 1>;

}  // namespace ringshard::ops::gpu
