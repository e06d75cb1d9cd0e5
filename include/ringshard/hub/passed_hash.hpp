#pragma once

#include <string>

#include "ringshard/hub/wrapped_files.hpp"

namespace ringshard::hub {

// The name of a text in a state file: the hash of the tensors that pass through. Checkpoints of
// earlier versions have none.
inline constexpr const char* passed_hash_text = "passed_hash";

// Returns one hash of the names and bytes of all tensors that pass through. Each rank reads some of
// them. Collective over the group.
comm::Agreed<std::string> hash_of_passed(const WrappedFiles& wrapped, const comm::Group& group);

}  // namespace ringshard::hub
