#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ringshard::data {

// The split that a file's name tells, else its folder's: "data/train-00000-of-00002.parquet" and
// "validation/a.jsonl" are of "train" and "validation". By the words that `datasets` knows.
std::optional<std::string> split_of(const std::filesystem::path& file);

}  // namespace ringshard::data
