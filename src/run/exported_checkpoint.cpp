#include "ringshard/run/exported_checkpoint.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/peft/merge_adapters.hpp"
#include "ringshard/run/run_state.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;

namespace {

// Returns the candidates for the export, best first: the checkpoint that `checkpoint` names, or
// those of the run that it names.
Expected<std::vector<std::string>> find_candidates(const fs::path& source,
                                                   std::vector<std::string>& damaged) {
    if (!folder_exists(source))
        return Failure{ExitCode::missing_input,
                       format_text("checkpoint = {}: there is no such folder", source.string())};
    const std::string name = source.filename();
    if (name.starts_with("checkpoint-") && is_unfinished(name))
        return Failure{
            ExitCode::bad_data,
            format_text(
                "checkpoint = {}: it was never finished; finished ones are named checkpoint-<step>",
                source.string())};
    if (name.starts_with("checkpoint-") || file_exists(source / "manifest.json"))
        return std::vector{source.string()};
    std::vector<std::string> found;
    const auto valid = checkpoint::valid_checkpoints(source, damaged);
    if (!valid) return valid.failure();
    for (const auto& entry : valid.value()) found.push_back(entry.folder.string());
    if (!found.empty() || !damaged.empty()) return found;
    return Failure{
        ExitCode::bad_data,
        format_text(
            "checkpoint = {}: is neither the folder of a checkpoint nor that of a run that has one",
            source.string())};
}

// Returns the first candidate whose weights are undamaged. Collective over the world.
comm::Agreed<checkpoint::Checkpoint> choose_checkpoint(const comm::Group& world,
                                                       const fs::path& source) {
    std::vector<std::string> damaged;
    std::optional<Failure> failure;
    std::vector<std::string> candidates;
    if (world.is_root()) {
        auto found = find_candidates(source, damaged);
        if (found)
            candidates = std::move(found).value();
        else
            failure = found.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return *agreed;
    const auto count = world.maximum(static_cast<int64_t>(candidates.size()));
    candidates.resize(static_cast<size_t>(count));
    for (std::string& candidate : candidates) {
        candidate = world.broadcast(candidate);
        auto checked = checkpoint::check_checkpoint(candidate, checkpoint::Contents::weights,
                                                    checkpoint::Verification::hashes, world);
        if (checked || candidate == source.string()) {
            for (const std::string& warning : damaged)
                std::cerr << "warning: checkpoint left out: " << warning << '\n';
            return checked;
        }
        if (world.is_root()) damaged.push_back(checked.failure().message());
    }
    if (world.is_root())
        failure =
            Failure{ExitCode::bad_data, format_text("{}: no checkpoint of this run is good:\n  {}",
                                                    source.string(), join(damaged, "\n  "))};
    return *comm::first_failure(world, failure);
}

// Returns the model of a checkpoint. Another one is no damage, and an older checkpoint would not be
// better. Collective over the world.
comm::Agreed<model::ModelSpec> read_spec(const comm::Group& world,
                                         const checkpoint::Checkpoint& checkpoint) {
    const auto config = checkpoint.folder / "config.json";
    const bool is_there = world.maximum(world.is_root() && file_exists(config) ? 1 : 0) == 1;
    auto invisible = is_there ? wait_until_visible(config) : std::nullopt;
    return comm::agreed(
        world, invisible ? Expected<model::ModelSpec>(*invisible) : model::read_model_spec(config));
}

// Gives the model the adapters of the checkpoint. Fails if an adapter is to be merged, and the
// checkpoint has none or several.
std::optional<Failure> add_adapters_of(ExportedCheckpoint& exported) {
    const std::string folder = exported.checkpoint.folder.string();
    if (exported.merges && exported.has_several())
        return Failure{
            ExitCode::settings,
            format_text("merge: {} holds the adapters {}, and each of them makes another model; "
                        "export them without merge, and merge one of them with PEFT",
                        folder, join(exported.names(), ", "))};
    if (exported.merges && exported.adapters.empty())
        return Failure{
            ExitCode::settings,
            format_text("merge: {} holds a whole model and no adapters; leave it out", folder)};
    return add_stored_adapters(exported.spec, exported.adapters);
}

// Fails if the adapter cannot be added to the weights of the checkpoint.
std::optional<Failure> check_merge(const ExportedCheckpoint& exported) {
    if (!exported.merges) return std::nullopt;
    const model::ModelSpec& spec = exported.spec;
    if (spec.adapters_part_tied_head())
        return Failure{
            ExitCode::settings,
            format_text("merge: {} is tied to the embedding, which a checkpoint of an adapter "
                        "does not hold apart; export the adapter without merge, and then "
                        "merge that folder: trainer export FOLDER --merge true",
                        spec.names.head)};
    return peft::refuse_merge(spec);
}

std::string untied_config(model::ModelSpec spec) {
    spec.untie();
    return spec.config_json;
}

// Files beside the weights would change the checkpoint, and it would not be whole any more.
std::optional<Failure> check_apart(const fs::path& checkpoint, const fs::path& folder) {
    std::error_code ignored;
    if (!fs::equivalent(checkpoint, folder, ignored)) return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("output_dir = {}: is the checkpoint itself; name another folder",
                               folder.string())};
}

constexpr const char* record_name = "export.json";

bool holds_weights(const fs::path& folder) {
    std::error_code ignored;
    return std::ranges::any_of(folder_entries(folder, ignored), [](const fs::path& entry) {
        const std::string name = entry.filename();
        return name.ends_with(".safetensors") || name == hub::index_name ||
               (name.starts_with("pytorch_model") && name.ends_with(".bin")) ||
               name == "adapter_model.bin";
    });
}

// The run of a checkpoint, as export.json names it beside the exported weights.
std::string run_of(const fs::path& checkpoint) {
    std::error_code error;
    const fs::path folder = fs::weakly_canonical(fs::absolute(checkpoint), error).parent_path();
    return folder.string();
}

std::string print_record(const fs::path& checkpoint) {
    return nlohmann::ordered_json{{"run", run_of(checkpoint)},
                                  {"checkpoint", checkpoint.filename().string()}}
               .dump(2) +
           "\n";
}

// Fails if the folder holds a model that is not an export of the same run. On rank 0.
std::optional<Failure> check_replaces(const fs::path& checkpoint, const fs::path& folder) {
    if (!holds_weights(folder)) return std::nullopt;
    const auto read = json_or_null<nlohmann::json>(read_file(folder / record_name).value_or(""));
    const auto run = read.is_object() ? read.value("run", nlohmann::json()) : nlohmann::json();
    if (run.is_string() && run.get<std::string>() == run_of(checkpoint)) return std::nullopt;
    return Failure{
        ExitCode::settings,
        format_text("output_dir = {}: holds a model that is no export of the run {}; name another "
                    "folder, or remove the model",
                    folder.string(), run_of(checkpoint))};
}

// The same of every folder that the export of adapters that trained together writes.
std::optional<Failure> check_output(const fs::path& checkpoint, const fs::path& folder,
                                    const std::vector<std::string>& adapters) {
    if (auto failure = check_apart(checkpoint, folder)) return failure;
    if (auto failure = check_replaces(checkpoint, folder)) return failure;
    for (const std::string& adapter : adapters)
        if (auto failure = check_replaces(checkpoint, folder / adapter)) return failure;
    return std::nullopt;
}

}  // namespace

std::vector<std::string> ExportedCheckpoint::names() const {
    std::vector<std::string> names;
    for (const StoredAdapter& adapter : adapters)
        if (!adapter.name.empty()) names.push_back(adapter.name);
    return names;
}

comm::Agreed<ExportedCheckpoint> ExportedCheckpoint::find(const comm::Group& world,
                                                          const fs::path& source, bool merges) {
    auto chosen = choose_checkpoint(world, source);
    if (!chosen) return chosen.failure();
    auto spec = read_spec(world, chosen.value());
    if (!spec) return spec.failure();
    auto adapters = stored_adapters_of(chosen.value().state.texts, chosen.value().folder.string());
    if (!adapters) return comm::found_by_all(adapters.failure());
    ExportedCheckpoint exported{std::move(chosen).value(), std::move(spec).value(),
                                std::move(adapters).value(), merges};
    if (const auto failure = add_adapters_of(exported)) return comm::found_by_all(*failure);
    if (const auto failure = check_merge(exported)) return comm::found_by_all(*failure);
    return exported;
}

std::optional<comm::AgreedFailure> check_export_folder(const ExportedCheckpoint& exported,
                                                       const fs::path& folder,
                                                       const comm::Group& world) {
    return comm::first_failure(
        world, world.is_root() ? check_output(exported.checkpoint.folder, folder, exported.names())
                               : std::nullopt);
}

comm::Agreed<std::map<std::string, std::string>> files_of_export(const ExportedCheckpoint& exported,
                                                                 const comm::Group& world) {
    auto files = read_sidecar_files(world, exported.checkpoint.folder);
    if (!files || !world.is_root()) return files;
    files.value()[record_name] = print_record(exported.checkpoint.folder);
    if (exported.writes_adapter() && !exported.has_several())
        peft::turn_into_adapter_files(files.value(), exported.adapters.front().text);
    else if (exported.spec.reads_head_from_embedding)
        files.value()["config.json"] = untied_config(exported.spec);
    return files;
}

}  // namespace ringshard::run
