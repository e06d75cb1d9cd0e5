#pragma once

#include "foreign_trainer.hpp"

namespace ringshard::config {

std::span<const ForeignKey> automodel_keys();
std::span<const ForeignDefault> automodel_defaults();

}  // namespace ringshard::config
