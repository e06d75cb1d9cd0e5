#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>

#include "ringshard/base/expected.hpp"

// A run may begin from a checkpoint of another one, its parent. It copies nothing: until it has a
// checkpoint of its own, a restart begins from that of the parent again, which the parent keeps.
namespace ringshard::checkpoint {

struct Parent {
    std::filesystem::path checkpoint;  // absolute
    int64_t step = 0;
};

// Returns the parent of the run in a folder; nothing if it has none, or the record is unreadable.
std::optional<Parent> read_parent(const std::filesystem::path& output_dir);

// Records the parent of the run in output_dir.
std::optional<Failure> record_parent(const std::filesystem::path& output_dir, const Parent& parent);

// Notes in the parent's folder that the run in output_dir needs the checkpoint.
std::optional<Failure> note_use(const Parent& parent, const std::filesystem::path& output_dir);

// Returns the steps of checkpoints in a folder that other runs begin from. Removes the notes of
// runs that have a checkpoint of their own, or whose folder is gone.
std::set<int64_t> steps_in_use(const std::filesystem::path& output_dir);

}  // namespace ringshard::checkpoint
