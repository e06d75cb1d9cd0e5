#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ringshard/config/adapter_init.hpp"
#include "ringshard/model/block_spec.hpp"

namespace ringshard::peft {

// A0 [rank, in] and B0 [out, rank].
struct LowRankFactors {
    at::Tensor a;
    at::Tensor b;
};

// Returns the factors that an adapter takes out of its weight [out, in], in fp32. PiSSA: scaling x
// B0 A0 is the part of the largest singular values. OLoRA: B0 A0 is the product of the first
// columns of Q and rows of R. `key`: of the random numbers of a randomised decomposition.
LowRankFactors decompose(const at::Tensor& weight, const model::AdapterSpec& adapter,
                         const config::AdapterInit& init, uint64_t key);

}  // namespace ringshard::peft
