#pragma once

#include "foreign_trainer.hpp"

namespace ringshard::config {

std::span<const ForeignKey> swift_shared_keys();

}  // namespace ringshard::config
