#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::test {

// A file below tests/parity/data.
std::filesystem::path golden_file(const std::filesystem::path& file);
text::Value read_json(const std::filesystem::path& file);         // kept as file.gz
text::Value read_packed_json(const std::filesystem::path& file);  // by zstd

std::vector<int64_t> integers(const text::Value& list);

}  // namespace ringshard::test
