#pragma once

#include "ringshard/config/resolve.hpp"

namespace ringshard::config {

// Puts the content of the file that `adapters` names in its place, as JSON: one object for each
// adapter, with its name and its own settings as texts. So every rank has it, and a checkpoint
// records it. Reports problems of the file.
void settle_adapters(const OptionTable& table, Resolution& result);

}  // namespace ringshard::config
