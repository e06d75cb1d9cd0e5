#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "run_data.hpp"

namespace ringshard::config {
class Settings;
}

namespace ringshard::cli {

// Everything that the losses of a run depend on, by name, as text. Folder, mesh and compute type
// are left out, so any run may read the checkpoint.
using LossFingerprint = std::map<std::string, std::string>;
LossFingerprint fingerprint_of(const config::Settings& settings, const mesh::MeshShape& shape,
                               const RunData& data);

std::string to_text(const LossFingerprint& fingerprint);

// Returns a setting that a checkpoint was made with, as text; empty where it does not say.
std::string setting_then(const checkpoint::Checkpoint& checkpoint, const std::string& name);

// Returns "learning_rate: 0.001 then, 5e-04 now" for every entry that differs. `then`: the text of
// a fingerprint; nothing differs from one that cannot be read.
std::vector<std::string> differences(const std::string& then, const LossFingerprint& now,
                                     const char* then_word, const char* now_word);

// Names what has changed since the checkpoint was made.
std::optional<Failure> check_fingerprint(const checkpoint::Checkpoint& checkpoint,
                                         const LossFingerprint& now, bool allow_changed);

}  // namespace ringshard::cli
