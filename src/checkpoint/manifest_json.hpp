#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ringshard/checkpoint/manifest.hpp"

// manifest.json as text. A checkpoint of 4,096 ranks has a million ranges, so both ways go over
// them once and build no tree.
namespace ringshard::checkpoint {

struct ManifestText {
    Manifest manifest;
    std::string format;
    int64_t version = 0;
};

// Returns why not as the message of the failure, without the name of the file.
Expected<ManifestText> parse_manifest(std::string_view text);
Expected<std::vector<WrittenRange>> parse_ranges(std::string_view text);

// A list with one range to a line.
std::string print_ranges(const std::vector<WrittenRange>& ranges);

}  // namespace ringshard::checkpoint
