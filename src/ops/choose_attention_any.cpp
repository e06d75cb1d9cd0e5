#include "attention_choice.hpp"

namespace ringshard::ops {

const AttentionKernels* attention_kernels_here(int number) {
    return number == 0 ? &portable_attention : nullptr;
}

bool has_bf16_tiles() { return false; }

}  // namespace ringshard::ops
