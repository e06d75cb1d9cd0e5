#include "ringshard/run/checkpoint_as_model.hpp"

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"

namespace ringshard::run {

std::optional<Failure> refuse_unfinished_run(const std::filesystem::path& folder,
                                             const std::string& setting) {
    for (const char* name : {"config.json", "adapter_config.json"})
        if (file_exists(folder / name)) return std::nullopt;
    std::vector<std::string> damaged;
    const auto valid = checkpoint::valid_checkpoints(folder, damaged);
    if (!valid || valid.value().empty()) return std::nullopt;
    return Failure{ExitCode::missing_input,
                   format_text("{} = {}: is the folder of a run that has not written its model "
                               "yet; its newest checkpoint can be named as a model: {}",
                               setting, folder.string(), valid.value().front().folder.string())};
}

}  // namespace ringshard::run
