#pragma once

#include "foreign_import.hpp"

namespace ringshard::config {

// Reads the names in `dataset` and their entries in dataset_info.json.
void read_llama_factory_data(ForeignImport& import);

}  // namespace ringshard::config
