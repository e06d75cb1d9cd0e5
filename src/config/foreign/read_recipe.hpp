#pragma once

#include "foreign_import.hpp"

namespace ringshard::config {

// Reads a file for --config: settings of this program under their names, or a recipe of axolotl,
// LLaMA-Factory, ms-swift or NeMo Automodel, which its keys show.
ImportedSettings read_config_file(const OptionTable& table, const std::filesystem::path& file,
                                  Problems& problems);

// Reads the command of ms-swift in a shell script.
ImportedSettings read_shell_recipe(const OptionTable& table, const std::filesystem::path& file,
                                   Problems& problems);

}  // namespace ringshard::config
