#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

// Files of a tokenizer's folder; throws an Error that names the file.
namespace ringshard::text {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what);

// Reads a JSON object; empty if there is no such file.
nlohmann::ordered_json read_object(const std::filesystem::path& file);

// Reads a file of text, with line ends as Python reads them.
std::string read_text(const std::filesystem::path& file);

}  // namespace ringshard::text
