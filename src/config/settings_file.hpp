#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "statement.hpp"

namespace ringshard::config {

// Reads YAML with flat keys and Accelerate's blocks. `strength` and `called` form each origin.
Statements read_settings_file(const OptionTable& table, const std::filesystem::path& file,
                              Strength strength, Problems& problems);
Statements read_settings_text(const OptionTable& table, const std::string& yaml, Strength strength,
                              const std::string& called, Problems& problems);

// Returns the content of a file; nothing if it is a folder or cannot be read.
std::optional<std::string> read_text_file(const std::filesystem::path& file);

// The mapping in a block, and its origin. `written`: a mapping as JSON, or the path of a JSON file.
// Returns nothing for null or after a problem.
struct BlockContent {
    nlohmann::ordered_json mapping;
    Origin origin;
};
std::optional<BlockContent> read_block(const Statement& written, Problems& problems);

// Returns the members of a block as statements.
Statements open_block(const Block& block, const Statement& written, Problems& problems);

}  // namespace ringshard::config
