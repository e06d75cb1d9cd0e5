#pragma once

#include <optional>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/zero.hpp"

// A frozen model in four or eight bits, beside which adapters are trained.
namespace ringshard::model {

// Gives this form to the linear layers of the blocks, as transformers does with load_in_4bit
// and load_in_8bit, and to each matrix of experts: the embedding, the head and routers keep their
// numbers. Fails (78) where such a layer is trained whole.
std::optional<Failure> quantize_frozen(ModelSpec& spec, shard::Codec form);

// Fills the frozen weights of `dense`, of the same model in fp32, with the dequantised weights of
// `quantized`. Collective over the zero group.
void copy_dequantized(shard::Zero& quantized, const shard::Zero& dense);

}  // namespace ringshard::model
