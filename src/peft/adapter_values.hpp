#pragma once

#include <map>
#include <string>
#include <vector>

#include "ringshard/peft/named_adapters.hpp"

namespace ringshard::peft {

// The shapes of all tensors that train beside the only adapter of a model, by name.
std::map<std::string, std::vector<int64_t>> trained_shapes(const model::ModelSpec& spec);

// Returns a reader of these tensors, by with_adapters()'s rules. `origin` must outlive it.
shard::ReadWeight read_adapter(const shard::ReadWeight& model, const model::ModelSpec& spec,
                               const AdapterOrigin& origin);

}  // namespace ringshard::peft
