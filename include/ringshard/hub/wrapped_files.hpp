#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ringshard/comm/agree.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/model/model_spec.hpp"

// The files of a wrapped model: its text model is trained, and all other tensors (a vision tower, a
// projector) pass through unchanged. Releases name the same tensors in several ways.
namespace ringshard::hub {

// Gives the tensors of a wrapped model's text model their names in the units, and makes all others
// others(); takes experts apart that the files hold as one tensor and the units one by one; puts a
// tensor in the place of those that hold a quantised matrix. Fails where the files hold no text
// model, or tensors of a quantised matrix that do not fit.
std::optional<Failure> find_weights(StoredModel& stored, const model::ModelSpec& spec);

// Where the tensors that pass through lie, and the names of the text model's tensors there.
class WrappedFiles {
public:
    // Collective over the group.
    static comm::Agreed<WrappedFiles> open(const std::filesystem::path& folder,
                                           const model::ModelSpec& spec, const comm::Group& group);

    const StoredModel& stored() const { return stored_; }
    // Returns the name in the files of a tensor of the units.
    std::string stored_name(const std::string& tensor) const;

private:
    WrappedFiles(StoredModel stored, std::string prefix);

    StoredModel stored_;
    std::string prefix_;       // of the spec
    std::string body_prefix_;  // in the files, for prefix_
    std::string head_prefix_;  // in the files, for "lm_head."
};

}  // namespace ringshard::hub
