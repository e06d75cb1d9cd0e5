#pragma once

#include <map>
#include <string>
#include <vector>

#include "block.hpp"
#include "ringshard/ops/rope.hpp"

namespace ringshard::model {

constexpr int64_t tokens = 14;
constexpr int64_t width = 24;
constexpr double epsilon = 1e-6;
constexpr double scaling = 1.5;  // of adapters
constexpr double dropout = 0.3;  // of adapters
const std::vector<int64_t> document_starts{0, 8};

using Leaves = std::map<std::string, at::Tensor>;  // the tensors of a block, by their names in it

// The output of a block for x [tokens, width] with two documents, by operations of ATen alone.
at::Tensor plain_block(const BlockSpec& spec, const Leaves& leaves, const at::Tensor& x,
                       const ops::RopeTable& table);

}  // namespace ringshard::model
