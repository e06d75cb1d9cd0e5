#pragma once

#include "foreign_import.hpp"

namespace ringshard::config {

// Sets the optimizer that LLaMA-Factory and ms-swift take from Moonlight, which `key` asks for:
// Muon at a rate that suits AdamW.
void set_muon_of_moonlight(ForeignImport& import, const std::string& key);

}  // namespace ringshard::config
