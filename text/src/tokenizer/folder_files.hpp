#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

// Reads files of a tokenizer's folder; failures throw an Error that names the file.
namespace ringshard::text {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what);

// Reads a JSON object; empty if the file does not exist.
nlohmann::ordered_json read_object(const std::filesystem::path& file);

// Reads a text file, with Python's line ends.
std::string read_text(const std::filesystem::path& file);

}  // namespace ringshard::text
