#pragma once

#include "foreign_trainer.hpp"

namespace ringshard::config {

std::span<const ForeignKey> megatron_swift_keys();
std::span<const ForeignDefault> megatron_swift_defaults();

}  // namespace ringshard::config
