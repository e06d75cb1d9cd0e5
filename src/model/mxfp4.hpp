#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/model/safetensors.hpp"
#include "ringshard/shard/flat_unit.hpp"

// Matrices of experts stored in MXFP4: "NAME_blocks" [experts, out, in / 32, 16] has two numbers of
// four bits in a byte, the lower half first; "NAME_scales" [experts, out, in / 32] has the
// exponents, plus 127, of the powers of two that multiply 32 numbers each. The weight NAME is
// [experts, in, out], with the numbers of transformers' dequantize=True.
namespace ringshard::model {

struct Mxfp4Tensors {
    std::string name;
    const StoredTensor* blocks;
    const StoredTensor* scales;  // nullptr: not in the files
};

// Returns the tensors that hold a weight; nothing where it has no blocks.
std::optional<Mxfp4Tensors> find_mxfp4(const StoredModel& stored, const std::string& weight);
void add_mxfp4_names(const std::string& weight, std::set<std::string>& names);

// Fails where blocks and scales are not those of the weight.
std::optional<Failure> check_mxfp4(const Mxfp4Tensors& packed, const shard::TensorSpec& weight);

// Reads elements of the weight from `first` on; the blocks of one expert at a time.
std::optional<Failure> read_mxfp4(const StoredModel& stored, const Mxfp4Tensors& packed,
                                  int64_t first, std::span<float> into, ByteCounter& bytes);

}  // namespace ringshard::model
