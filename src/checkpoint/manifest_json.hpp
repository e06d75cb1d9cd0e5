#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ringshard/checkpoint/manifest.hpp"

// Reads and prints manifest.json. A checkpoint of 4,096 ranks has a million ranges, so both work in
// one pass and build no tree.
namespace ringshard::checkpoint {

struct ManifestText {
    Manifest manifest;
    std::string format;
    int64_t version = 0;
};

// The failure's message gives the reason, without the name of the file.
Expected<ManifestText> parse_manifest(std::string_view text);
Expected<std::vector<WrittenRange>> parse_ranges(std::string_view text);

// Prints a list with one range per line.
std::string print_ranges(const std::vector<WrittenRange>& ranges);

}  // namespace ringshard::checkpoint
