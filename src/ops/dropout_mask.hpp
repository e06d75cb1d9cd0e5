#pragma once

#include "ringshard/ops/dropout.hpp"

namespace ringshard::ops {

// Returns which elements [keys, width] are kept, by LibTorch's operators: the same bits on every
// device as on the host, which has a loop of its own.
at::Tensor kept_elements(const at::Tensor& keys, const DropoutMask& mask, int64_t width);

}  // namespace ringshard::ops
