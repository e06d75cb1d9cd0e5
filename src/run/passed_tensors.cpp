#include "ringshard/run/passed_tensors.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/hub/passed_hash.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;

namespace {

// The folder of a model that holds all of its tensors. Collective over the group.
comm::Agreed<fs::path> whole_model(const fs::path& folder, const comm::Group& group) {
    const bool is_checkpoint = group.is_root() && checkpoint::is_checkpoint(folder);
    if (group.maximum(is_checkpoint ? 1 : 0) == 0) return folder;
    const auto checked = check_checkpoint(folder, checkpoint::Contents::weights,
                                          checkpoint::Verification::sizes, group);
    if (!checked) return checked.failure();
    const auto& texts = checked.value().state.texts;
    if (const auto named = texts.find(passed_text); named != texts.end())
        return fs::path(named->second);
    return comm::found_by_all(
        {ExitCode::bad_data,
         format_text("{}: is of a wrapped model, and does not name the folder of its other "
                     "tensors; give that one as model_name_or_path",
                     folder.string())});
}

}  // namespace

comm::Agreed<std::optional<PassedTensors>> find_passed_tensors(const fs::path& folder,
                                                               const model::ModelSpec& spec,
                                                               const comm::Group& group) {
    if (!spec.is_wrapped) return std::optional<PassedTensors>();
    const auto whole = whole_model(folder, group);
    if (!whole) return whole.failure();
    auto files = hub::WrappedFiles::open(whole.value(), spec, group);
    if (!files) return files.failure();
    auto hash = hub::hash_of_passed(files.value(), group);
    if (!hash) return hash.failure();
    return std::optional(PassedTensors{fs::absolute(whole.value()).string(),
                                       std::move(files).value(), std::move(hash).value()});
}

std::optional<Failure> check_passed(const checkpoint::Checkpoint& checkpoint,
                                    const std::optional<PassedTensors>& passed) {
    const auto then = checkpoint.state.texts.find(hub::passed_hash_text);
    if (!passed || then == checkpoint.state.texts.end() || then->second == passed->hash)
        return std::nullopt;
    return Failure{
        ExitCode::bad_data,
        format_text("{}: was made beside other tensors that pass through unchanged than those in "
                    "{}; give the model of then as model_name_or_path, or begin another run in "
                    "another output_dir",
                    checkpoint.folder.string(), passed->folder)};
}

}  // namespace ringshard::run
