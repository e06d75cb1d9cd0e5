#pragma once

#include <map>
#include <optional>
#include <string>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh_shape.hpp"

namespace ringshard::cli {

// What the curve of a run depends on, by name, as text. Where a run is, how it is cut, and in which
// type it computes are not among it: a checkpoint may be read anywhere.
using Curve = std::map<std::string, std::string>;
Curve curve_of(const config::Settings& settings, const mesh::MeshShape& shape,
               const data::Rows& rows);

std::string to_text(const Curve& curve);

// Names what has changed since the checkpoint was made.
std::optional<Failure> check_curve(const checkpoint::Checkpoint& checkpoint, const Curve& now,
                                   bool allow_changed);

}  // namespace ringshard::cli
