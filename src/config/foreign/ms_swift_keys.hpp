#pragma once

#include "foreign_trainer.hpp"

namespace ringshard::config {

std::span<const ForeignKey> ms_swift_keys();
std::span<const ForeignDefault> ms_swift_defaults();

}  // namespace ringshard::config
