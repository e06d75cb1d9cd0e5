#pragma once

#include <filesystem>
#include <string>

#include "statement.hpp"

namespace ringshard::config {

// YAML with flat keys and the blocks of Accelerate. `strength` and `called` make up each origin.
Statements read_settings_file(const OptionTable& table, const std::filesystem::path& file,
                              Strength strength, Problems& problems);
Statements read_settings_text(const OptionTable& table, const std::string& yaml, Strength strength,
                              const std::string& called, Problems& problems);

// What a block holds, said as statements. `written` is a mapping as JSON, or the path of a JSON
// file.
Statements open_block(const Block& block, const Statement& written, Problems& problems);

}  // namespace ringshard::config
