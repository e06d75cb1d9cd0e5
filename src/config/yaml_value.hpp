#pragma once

#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <string>

// Returns a value of a YAML file as the text that a setting parses. Throws YAML::Exception.
namespace ringshard::config {

std::string to_text(const YAML::Node& node);
// Converts to JSON; plain scalars become numbers, booleans and null.
nlohmann::ordered_json to_json(const YAML::Node& node);
std::string to_text(const nlohmann::ordered_json& value);

}  // namespace ringshard::config
