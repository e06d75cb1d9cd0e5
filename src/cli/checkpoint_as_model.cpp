#include "checkpoint_as_model.hpp"

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/attempts.hpp"

namespace ringshard::cli {

std::optional<Failure> refuse_unfinished_run(const std::filesystem::path& folder,
                                             const std::string& setting) {
    if (file_exists(folder / "config.json")) return std::nullopt;
    std::vector<std::string> damaged;
    const auto valid = checkpoint::valid_checkpoints(folder, damaged);
    if (!valid || valid.value().empty()) return std::nullopt;
    return Failure{ExitCode::missing_input,
                   concat(setting, " = ", folder.string(),
                          ": is the folder of a run that has not written its model yet; its newest "
                          "checkpoint can be named as a model: ",
                          valid.value().front().folder.string())};
}

comm::Agreed<std::optional<checkpoint::Checkpoint>> open_as_model(
    const std::filesystem::path& folder, const std::vector<shard::FlatUnit>& units,
    checkpoint::Scrutiny scrutiny, const comm::Group& group) {
    const bool is_one = group.is_root() && checkpoint::is_checkpoint(folder);
    if (group.maximum(is_one ? 1 : 0) == 0) return std::optional<checkpoint::Checkpoint>();
    const auto normal = folder.lexically_normal();
    auto checked = check_checkpoint(normal.has_filename() ? normal : normal.parent_path(),
                                    checkpoint::Extent::weights, scrutiny, group);
    if (!checked) return checked.failure();
    if (const auto failure = check_fit(checked.value(), units)) return comm::found_by_all(*failure);
    return std::optional(std::move(checked).value());
}

}  // namespace ringshard::cli
