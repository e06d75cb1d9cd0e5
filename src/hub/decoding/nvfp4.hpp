#pragma once

#include "format.hpp"

namespace ringshard::hub {

// How a matrix's scale in fp32 acts on those of its blocks.
enum class GlobalScale { divides, multiplies };

// Endings of the names of a format's tensors.
struct Nvfp4Names {
    const char* codes;
    const char* global;
    GlobalScale use;
};

// Finds a weight MODULE.weight in NVFP4; nothing where it lies as numbers.
Expected<Decoded> find_nvfp4(const StoredModel& stored, const shard::TensorSpec& weight,
                             const Nvfp4Names& names);

}  // namespace ringshard::hub
