#pragma once

#include "optimizers.hpp"

// Optimizers that update each weight by itself.
namespace ringshard::optim {

// By a rule of ops whose moments have these names.
OptimizerKind elementwise(const std::vector<std::string>& moments, RuleOfStep rule);

// An elementwise optimizer whose moments are in 8 bits, with or without a sign, for large matrices;
// `others`, which has no codes, updates the rest.
OptimizerKind in_eight_bits(const OptimizerKind& plain, const std::vector<bool>& are_signed,
                            config::Optimizer others);

}  // namespace ringshard::optim
