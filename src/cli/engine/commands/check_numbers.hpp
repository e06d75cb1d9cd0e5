#pragma once

#include <ATen/core/Tensor.h>

namespace ringshard::cli {

// Numbers for checks of communicators: small whole ones, different on every rank, and mostly zero
// where the world is large. So their sums over all ranks are exact in any order in every type: bf16
// counts to 256.
class CheckNumbers {
public:
    CheckNumbers(int64_t world, at::TensorOptions options);

    // Elements first ... first + count - 1 of a rank; its cost does not depend on the world.
    at::Tensor of_rank(int64_t rank, int64_t first, int64_t count) const;
    at::Tensor sum_of_all(int64_t first, int64_t count) const;

private:
    at::TensorOptions options_;
    int64_t period_;   // one rank in so many has numbers other than zero at an element
    at::Tensor sums_;  // [period, 4]: of the elements that are alike
};

}  // namespace ringshard::cli
