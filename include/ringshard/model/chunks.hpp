#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>

namespace ringshard::model {

// Tokens that the head and the MLP work on at a time, where not everything is kept. Small chunks
// stay in a processor's caches. On a GPU, the sums of the weights' gradients are read and written
// with every chunk: 256 tokens would take four times as long for that as for the products.
struct Chunks {
    int64_t head = 256;
    int64_t mlp = 2048;
};
inline Chunks chunks_of(c10::DeviceType device) {
    if (device == c10::DeviceType::CUDA) return {.head = 4096, .mlp = 8192};
    return {};
}

}  // namespace ringshard::model
