#pragma once

#include <filesystem>
#include <string>

#include "ringshard/text/value.hpp"

// Reads files of a tokenizer's folder; failures throw an Error that names the file.
namespace ringshard::text {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what);

// Reads a JSON object; empty if the file does not exist.
Value read_object(const std::filesystem::path& file);

// Returns the text of a member; nullptr if it is missing or no text.
const std::string* text_in(const Value& object, std::string_view key);

// Reads a text file, with Python's line ends.
std::string read_text(const std::filesystem::path& file);

}  // namespace ringshard::text
