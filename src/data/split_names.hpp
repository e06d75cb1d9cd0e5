#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ringshard::data {

// Returns the split in a file's name, or else in its folder's, by the words that `datasets` knows:
// "train" for "data/train-00000-of-00002.parquet", "validation" for "validation/a.jsonl".
std::optional<std::string> split_of(const std::filesystem::path& file);

}  // namespace ringshard::data
