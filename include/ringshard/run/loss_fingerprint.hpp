#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/run_data.hpp"

namespace ringshard::config {
class Settings;
}

namespace ringshard::run {

// Everything that the losses of a run depend on, by name, as text. Folder, mesh and compute type
// are left out, so any run may read the checkpoint.
using LossFingerprint = std::map<std::string, std::string>;

// The parts of a run that shape its losses beside the settings.
struct RunIdentity {
    const mesh::MeshShape& shape;
    const RunData& data;
    const model::ModelSpec& spec;
    const std::vector<int64_t>&
        num_steps;  // of the model, or of each adapter that trains with others
    const std::map<std::string, std::string>& sidecar_files;  // of the model; on rank 0
};
// Collective over the world.
LossFingerprint fingerprint_of(const config::Settings& settings, const RunIdentity& run,
                               const comm::Group& world);

std::string to_text(const LossFingerprint& fingerprint);

// Returns a setting that a checkpoint was made with, as text; empty where it does not say.
std::string setting_then(const checkpoint::Checkpoint& checkpoint, const std::string& name);

// Returns "learning_rate: 0.001 then, 5e-04 now" for every entry that differs. `then`: the text of
// a fingerprint; nothing differs from one that cannot be read. Entries beside the settings are
// compared where both have them: earlier versions have fewer.
std::vector<std::string> differences(const std::string& then, const LossFingerprint& now,
                                     const char* then_word, const char* now_word);

// Names what has changed since the checkpoint was made: fails (78), or prints it where
// `allow_changed` and `prints` are set.
std::optional<Failure> check_fingerprint(const checkpoint::Checkpoint& checkpoint,
                                         const LossFingerprint& now, bool allow_changed,
                                         bool prints);

}  // namespace ringshard::run
