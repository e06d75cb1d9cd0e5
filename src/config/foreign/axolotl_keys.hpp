#pragma once

#include "foreign_trainer.hpp"

namespace ringshard::config {

std::span<const ForeignKey> axolotl_keys();
std::span<const ForeignDefault> axolotl_defaults();

}  // namespace ringshard::config
