#include "output_folder.hpp"

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/frozen_weights.hpp"
#include "ringshard/run/passed_tensors.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;

namespace {

// A folder from which a run reads, and the setting that names it.
struct ReadFolder {
    fs::path folder;
    std::string what;
};

// Adds the folders that a checkpoint names, if the folder is one.
void add_folders_of_checkpoint(const fs::path& folder, std::vector<ReadFolder>& found) {
    if (!checkpoint::is_checkpoint(folder)) return;
    const auto state = checkpoint::open_state_file(folder / checkpoint::state_name);
    if (!state) return;  // find_origin() reports it
    if (const auto frozen = frozen_weights_of(state.value(), folder.string());
        frozen && !frozen.value().base.empty())
        found.push_back({frozen.value().base, "has the frozen weights of model_name_or_path"});
    if (const auto passed = state.value().texts.find(passed_text);
        passed != state.value().texts.end())
        found.push_back({passed->second, "has tensors of model_name_or_path"});
}

std::vector<ReadFolder> folders_read(const RunInputs& inputs) {
    std::vector<ReadFolder> found{{inputs.model, "is model_name_or_path"}};
    add_folders_of_checkpoint(inputs.model, found);
    for (const auto& [name, settings, config, folder] : inputs.adapters)
        found.push_back(
            {folder, format_text("is adapter_name_or_path{}{}", name.empty() ? "" : " of ", name)});
    return found;
}

std::optional<Failure> find_overlap(const config::Settings& settings, const RunInputs& inputs) {
    const fs::path output_dir = settings.values.run.output_dir;
    std::vector<fs::path> written{output_dir};
    if (are_several(inputs.adapters))
        for (const AskedAdapter& adapter : inputs.adapters)
            written.push_back(output_dir / adapter.name);
    for (const ReadFolder& read : folders_read(inputs))
        for (const fs::path& folder : written) {
            std::error_code ignored;
            if (read.folder.empty() || !fs::equivalent(read.folder, folder, ignored)) continue;
            return Failure{
                ExitCode::settings,
                format_text("output_dir = {} [{}]: {} {}, and the result would replace what is "
                            "there; name another folder",
                            output_dir.string(), settings.origin_of("output_dir").place,
                            folder.string(), read.what)};
        }
    return std::nullopt;
}

}  // namespace

std::optional<comm::AgreedFailure> check_output_is_apart(const CommandContext& context,
                                                         const RunInputs& inputs) {
    const comm::Group& world = context.world;
    return comm::first_failure(
        world, world.is_root() ? find_overlap(context.settings, inputs) : std::nullopt);
}

bool is_complete(const CommandContext& context, const Origin& origin, int64_t num_steps) {
    if (!origin.checkpoint || origin.checkpoint->progress.step != num_steps) return false;
    const fs::path output_dir = context.settings.values.run.output_dir;
    const bool is_own = context.world.is_root() &&
                        is_same_folder(origin.checkpoint->folder.parent_path(), output_dir);
    const bool has_all = is_own && train::has_results_of(output_dir, num_steps);
    return context.world.maximum(has_all ? 1 : 0) == 1;
}

}  // namespace ringshard::run
