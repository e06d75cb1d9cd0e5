// Compiled for AVX-512 with tiles for bf16 (AMX); choose_kernels_x86.cpp decides where it may be
// called.
#include "attention_backward_tiles.hpp"
#include "attention_forward_tiles.hpp"
#include "gemm_tiles.hpp"
#include "processor_kernels.hpp"
#include "vectors_avx512.hpp"

namespace ringshard::ops {

namespace {

struct Single : Numbers<VectorsOfAvx512> {
    static constexpr int64_t rows = 6;
    static constexpr int64_t vectors = 4;
    static RINGSHARD_KERNEL Halves rounded(Float values) {
        return reinterpret_cast<Halves>(_mm512_cvtneps_pbh(values));
    }
};

constexpr AttentionKernels attention_kernels_with_tiles() {
    AttentionKernels kernels = attention_kernels_of<Single, Single>();
    kernels.forward_bytes = greater_bytes<forward_bytes<Single>, tile_forward_bytes>;
    kernels.backward_bytes = greater_bytes<backward_bytes<Single>, tile_backward_bytes>;
    kernels.forward_bf16 = forward_by_tiles<Single>;
    kernels.backward_bf16 = backward_by_tiles<Single>;
    return kernels;
}

constexpr GemmKernels gemm_kernels_with_tiles() {
    GemmKernels kernels = gemm_kernels_of<Single, Single>();
    if (kernels.memory_bytes < TileGemm::memory_bytes)
        kernels.memory_bytes = TileGemm::memory_bytes;
    kernels.bf16 = multiply_by_tiles;
    kernels.tile_rows = 96;  // whole tiles of both kinds
    return kernels;
}

}  // namespace

constinit const Kernels amx_kernels{"amx", attention_kernels_with_tiles(),
                                    gemm_kernels_with_tiles()};

}  // namespace ringshard::ops
