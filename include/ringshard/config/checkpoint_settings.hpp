#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::config {

enum class SaveStrategy { no, steps, epoch, best };
enum class Hdf5Io { direct, mpio };
enum class Verification { sizes, full };

struct CheckpointSettings {
    SaveStrategy save_strategy = SaveStrategy::steps;
    double save_steps = 500;  // below 1: a fraction of all steps
    std::optional<int64_t> save_total_limit;
    bool save_only_model = false;
    bool save_model_in_checkpoints = false;  // safetensors besides state.h5
    int64_t max_failed_saves = 3;            // in a row
    Hdf5Io hdf5_io = Hdf5Io::direct;
    std::vector<std::string> hdf5_hint;  // key=value, for MPI-IO
    std::string resume_from_checkpoint = "auto";
    Verification verify_checkpoint = Verification::full;
    bool allow_changed = false;
    bool take_over = false;
    bool push_to_hub = false;  // print the command that uploads the result
    std::string hub_model_id;  // user/name
    std::string hub_revision;
    std::optional<bool> hub_private_repo;
};

}  // namespace ringshard::config
