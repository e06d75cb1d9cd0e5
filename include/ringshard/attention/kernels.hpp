#pragma once

namespace ringshard::attention {

// Whose operators attend, which matters where a step is planned with tensors that have no numbers:
// a GPU's take room beside what they are given and what they give back.
enum class Kernels { of_host, of_gpu };

}  // namespace ringshard::attention
