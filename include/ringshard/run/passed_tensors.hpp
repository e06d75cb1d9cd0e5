#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/hub/wrapped_files.hpp"

namespace ringshard::run {

// The tensors of a wrapped model that pass through unchanged. A checkpoint does not hold them: it
// names the folder that does.
struct PassedTensors {
    std::string folder;
    hub::WrappedFiles files;
    std::string hash;  // of their bytes
};

inline constexpr const char* passed_text = "passed";  // name of a text in a state file

// Fails (65) if they are not those with which a checkpoint was made.
std::optional<Failure> check_passed(const checkpoint::Checkpoint& checkpoint,
                                    const std::optional<PassedTensors>& passed);

// Finds them in `folder`, or, if that is a checkpoint, in the folder that it names. Nothing if the
// model is not wrapped. Collective over the group.
comm::Agreed<std::optional<PassedTensors>> find_passed_tensors(const std::filesystem::path& folder,
                                                               const model::ModelSpec& spec,
                                                               const comm::Group& group);

}  // namespace ringshard::run
