#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::checkpoint {

// Neighbouring elements of a tensor that one rank wrote, with the XXH3-128 hash of their bytes.
struct WrittenRange {
    std::string dataset;  // of the whole tensor
    int64_t first;        // element of the tensor with which it begins
    std::string file;     // where it lies
    int64_t offset;       // of its first byte there
    int64_t length;       // bytes
    std::string hash;
};

std::string checkpoint_name(int64_t step);  // "checkpoint-4"

// manifest.json of a checkpoint: what must be there for it to be whole. With its frame, every byte
// of a file is hashed.
struct Manifest {
    int64_t step = 0;
    int64_t attempt = 0;
    std::map<std::string, int64_t> file_sizes;
    std::map<std::string, std::string> metadata_hashes;  // of all bytes outside ranges, by file
    std::vector<WrittenRange> ranges;
    bool has_moments = true;  // else it holds weights alone, and no run can go on from it
};

inline constexpr const char* state_name = "state.h5";
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* info_name = "checkpoint.json";
inline constexpr const char* weights_group = "/model/";
inline constexpr const char* optimizer_group = "/optimizer/";
inline std::string group_of_state(const std::string& name) { return optimizer_group + name + "/"; }

// The facts of checkpoint.json that a run needs of its other checkpoints. The file stays small
// where the manifest has a million ranges.
struct CheckpointInfo {
    int64_t step = 0;
    int64_t attempt = 0;
    bool has_moments = true;
    std::map<std::string, int64_t> file_sizes;  // of every other file, manifest.json too
};

// Whether the folder holds a checkpoint of this program, whole or not.
bool is_checkpoint(const std::filesystem::path& folder);

std::string to_text(const std::vector<WrittenRange>& ranges);  // for the way between ranks
std::vector<WrittenRange> ranges_from_text(const std::string& text);

std::string to_text(const Manifest& manifest);
std::string to_text(const CheckpointInfo& info);
// Both fail if the file is missing or unreadable, if the folder has not the name of its step, or if
// a file is missing or has another size. A folder without checkpoint.json, of an older program, is
// known by its manifest.
Expected<Manifest> read_manifest(const std::filesystem::path& folder);
Expected<CheckpointInfo> read_info(const std::filesystem::path& folder);

}  // namespace ringshard::checkpoint
