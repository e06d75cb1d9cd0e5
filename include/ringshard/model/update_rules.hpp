#pragma once

#include <map>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// Returns the rule, from 1, of each trained tensor that a pattern of lr_groups matches: the first
// one. Fails (78) if a pattern is the first to match nothing, or if the tensors of one matrix would
// have different rules.
Expected<std::map<std::string, size_t>> find_update_rules(const ModelSpec& spec,
                                                          const std::vector<std::string>& patterns);

}  // namespace ringshard::model
