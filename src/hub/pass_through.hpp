#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "ringshard/hub/export_weights.hpp"

namespace ringshard::hub {

// Returns the place of a planned file while it is written.
using PathOf = std::function<std::filesystem::path(const std::string& name)>;

// Copies this rank's part of the tensors that pass through into the planned files, which exist.
std::optional<Failure> pass_through(const WeightFiles& planned, const WrappedFiles& wrapped,
                                    const PathOf& path_of, const comm::Group& world);

}  // namespace ringshard::hub
