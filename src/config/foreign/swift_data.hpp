#pragma once

#include "foreign_import.hpp"

namespace ringshard::config {

// Reads the datasets of ms-swift, whose command for Megatron has the same ones.
void read_swift_data(ForeignImport& import);
// Reads the keys that say which messages are learned, and the template.
void read_swift_template(ForeignImport& import);
// Reads the adapter; `usual`: the tuner if the recipe names none.
void read_swift_tuner(ForeignImport& import, const std::string& usual);

}  // namespace ringshard::config
