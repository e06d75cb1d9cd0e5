#pragma once

#include <filesystem>
#include <string>

#include "inputs.hpp"
#include "ringshard/data/prepare.hpp"
#include "ringshard/text/value.hpp"

// What the files of a cache are made of: equal descriptions, equal files.
namespace ringshard::data {

// Includes size and time: a modified file counts as another one.
text::Value describe_file(const std::filesystem::path& file);
// Everything that determines the tokens; and the rows, beside the name of their token store.
text::Value describe_tokens(const Preparation& preparation, const Inputs& inputs);
text::Value describe_rows(const Preparation& preparation, const std::string& store);

}  // namespace ringshard::data
