#pragma once

#include "foreign_trainer.hpp"

namespace ringshard::config {

std::span<const ForeignKey> llama_factory_keys();
std::span<const ForeignDefault> llama_factory_defaults();

}  // namespace ringshard::config
