#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::checkpoint {

// A range of a file that one rank wrote, with the XXH3-128 hash of its bytes.
struct WrittenRange {
    std::string dataset;
    int64_t offset;
    int64_t length;
    std::string hash;
};

std::string checkpoint_name(int64_t step);  // "checkpoint-4"

// manifest.json of a checkpoint: what must be there for it to be whole.
struct Manifest {
    int64_t step = 0;
    int64_t attempt = 0;
    std::map<std::string, int64_t> file_sizes;
    std::vector<WrittenRange> ranges;
};

std::string to_text(const std::vector<WrittenRange>& ranges);  // for the way between ranks
std::vector<WrittenRange> ranges_from_text(const std::string& text);

std::optional<Failure> write_manifest(const std::filesystem::path& folder,
                                      const Manifest& manifest);
// Fails if it is missing or unreadable, if the folder has not the name of its step, or if a file is
// missing or has another size.
Expected<Manifest> read_manifest(const std::filesystem::path& folder);

}  // namespace ringshard::checkpoint
