#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

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

// "learning_rate: 0.001 then, 5e-04 now" for every setting whose text is another; `then` is the
// text of a curve, and nothing differs from one that cannot be read.
std::vector<std::string> differences(const std::string& then, const Curve& now,
                                     const char* then_word, const char* now_word);

// Names what has changed since the checkpoint was made.
std::optional<Failure> check_curve(const checkpoint::Checkpoint& checkpoint, const Curve& now,
                                   bool allow_changed);

}  // namespace ringshard::cli
