#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::checkpoint {

// Contiguous elements of a tensor that one rank wrote, with the XXH3-128 hash of their bytes.
struct WrittenRange {
    std::string dataset;  // name of the whole tensor
    int64_t first;        // its first element in the tensor
    std::string file;     // the file that holds it
    int64_t offset;       // of its first byte in the file
    int64_t length;       // bytes
    std::string hash;
};

std::string checkpoint_name(int64_t step);  // "checkpoint-4"

// manifest.json of a checkpoint: the files and ranges of a whole checkpoint. Ranges and
// metadata_hashes together cover every byte of the HDF5 files, file_hashes the other files that can
// change a result: all but trainer_state.json, README.md and the copy of the weights.
struct Manifest {
    int64_t step = 0;
    int64_t attempt = 0;
    std::map<std::string, int64_t> file_sizes;
    std::map<std::string, std::string> metadata_hashes;  // by file, of all bytes outside ranges
    std::vector<WrittenRange> ranges;
    bool has_moments = true;  // otherwise weights alone, from which no run can resume
    std::map<std::string, std::string> file_hashes{};  // empty in those of earlier versions
};

inline constexpr const char* state_name = "state.h5";
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* info_name = "checkpoint.json";
inline constexpr const char* weights_group = "/model/";
inline constexpr const char* optimizer_group = "/optimizer/";
inline std::string group_of_state(const std::string& name) { return optimizer_group + name + "/"; }

// The part of checkpoint.json that a run needs of its other checkpoints. The file stays small when
// the manifest has a million ranges.
struct CheckpointInfo {
    int64_t step = 0;
    int64_t attempt = 0;
    bool has_moments = true;
    std::map<std::string, int64_t> file_sizes;  // of every other file, including manifest.json
};

// Returns true if the folder holds a checkpoint of this program, whole or not.
bool is_checkpoint(const std::filesystem::path& folder);

std::string to_text(const std::vector<WrittenRange>& ranges);  // for messages between ranks
std::vector<WrittenRange> ranges_from_text(const std::string& text);

std::string to_text(const Manifest& manifest);
std::string to_text(const CheckpointInfo& info);
// Both fail if the file is missing or unreadable, if the folder does not have the name of its step,
// or if a file is missing or has another size. For a folder without checkpoint.json, of an older
// version, read_info() reads the manifest.
Expected<Manifest> read_manifest(const std::filesystem::path& folder);
Expected<CheckpointInfo> read_info(const std::filesystem::path& folder);

}  // namespace ringshard::checkpoint
