#pragma once

#include <string>
#include <vector>

namespace ringshard::config {

// The setting loss_scale: which messages are learned, then rules for parts of them, as in
// last_round+hermes+ignore_empty_think.
struct LossScaleWords {
    std::string base;  // default, last_round or all; default where it is not given
    std::vector<std::string> rules;
    std::string wrong;  // the first word that is neither; empty: none
};
LossScaleWords read_loss_scale(const std::string& setting);

// Returns the rules of a validated setting.
std::vector<std::string> loss_scale_rules(const std::string& setting);

}  // namespace ringshard::config
