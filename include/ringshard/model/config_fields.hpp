#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ringshard::model {

// Returns the fields of a config.json, and of its text_config as "text_config.NAME", that no model
// of this program has, in transformers neither: they change nothing. Nothing if it is not readable.
// Returns true if a model reads the field, or transformers writes it.
bool is_model_field(const std::string& name);
std::string nearest_model_field(const std::string& name);

std::vector<std::string> unknown_fields(const std::filesystem::path& config_json);

// Returns a warning that names them and the known fields with similar names; empty if all are
// known.
std::string warn_of_unknown_fields(const std::filesystem::path& config_json);

}  // namespace ringshard::model
