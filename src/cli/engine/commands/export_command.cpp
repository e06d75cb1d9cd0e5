#include "engine_commands.hpp"

#include <c10/core/InferenceMode.h>

#include <iostream>

#include "merge_folder.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/peft/written_adapter.hpp"
#include "ringshard/run/exported_checkpoint.hpp"
#include "ringshard/run/exported_weights.hpp"
#include "ringshard/run/passed_tensors.hpp"
#include "ringshard/run/pretrained.hpp"
#include "ringshard/run/references.hpp"
#include "ringshard/run/run_adapters.hpp"

namespace ringshard::cli {

namespace fs = std::filesystem;

namespace {

struct Args {
    fs::path source;  // a checkpoint, or the folder of a run
    fs::path folder;  // to be made
    hub::ExportForm form;
};

Expected<Args> parse_args(const config::Settings& settings) {
    const config::ModelSettings& model = settings.values.model;
    const auto refuse = [](const std::string& what) { return Failure{ExitCode::settings, what}; };
    if (model.checkpoint.empty())
        return Failure{ExitCode::usage,
                       "name what to export: trainer export CHECKPOINT --output_dir FOLDER"};
    if (!settings.is_fixed("output_dir"))
        return refuse("output_dir is not set: name the folder for the model");
    const auto type = hub::read_export_type(model.dtype);
    if (!type)
        return refuse(
            format_text("dtype = {}: a model is written as float32 or bfloat16", model.dtype));
    const auto shard_size = read_bytes(model.max_shard_size);
    if (!shard_size)
        return refuse(
            format_text("max_shard_size = {}: must be a size as 5GB, 200MB or a number of bytes",
                        model.max_shard_size));
    return Args{
        without_slash(model.checkpoint), settings.values.run.output_dir, {*type, *shard_size}};
}

// The tensors that pass through, from the model that the settings name, or the checkpoint.
// Collective over the world.
comm::Agreed<std::optional<run::PassedTensors>> passed_tensors_of(
    const run::CommandContext& context, const checkpoint::Checkpoint& checkpoint,
    const model::ModelSpec& spec) {
    if (!spec.is_wrapped) return std::optional<run::PassedTensors>();
    const auto named = run::named_model(context);
    if (!named) return named.failure();
    return run::find_passed_tensors(named.value().value_or(checkpoint.folder), spec, context.world);
}

// Writes each of the adapters that trained together into a folder of its name. Collective over the
// world.
std::optional<comm::AgreedFailure> write_several(const std::vector<run::StoredAdapter>& adapters,
                                                 const shard::Zero& zero, const fs::path& folder,
                                                 const std::map<std::string, std::string>& files,
                                                 const comm::Group& world) {
    for (size_t number = 0; number < adapters.size(); ++number) {
        const auto& [name, text, config] = adapters[number];
        std::map<std::string, std::string> of_adapter = files;
        if (world.is_root()) peft::turn_into_adapter_files(of_adapter, text);
        const hub::ExportForm form{
            .type = hub::StoredType::fp32,
            .adapter = peft::written_adapter(zero.units(), {number, name}, nullptr)};
        if (auto failure =
                hub::export_weights(zero, folder / name, std::move(of_adapter), form, world))
            return failure;
    }
    return std::nullopt;
}

using MaybeFailure = std::optional<comm::AgreedFailure>;

// Writes the model of the checkpoint, or its adapter, and what it computes. Collective over the
// world.
MaybeFailure write_exported(const run::CommandContext& context,
                            const run::ExportedCheckpoint& exported, const run::Pretrained& weights,
                            const mesh::Mesh& mesh, shard::Zero& zero, const Args& args,
                            const std::map<std::string, std::string>& files) {
    const auto passed = passed_tensors_of(context, exported.checkpoint, exported.spec);
    if (!passed) return passed.failure();
    if (const auto changed = run::check_passed(exported.checkpoint, passed.value()))
        return comm::found_by_all(*changed);
    hub::ExportForm form = args.form;
    form.constants = exported.spec.constants;
    if (passed.value()) form.wrapped = &passed.value()->files;
    if (exported.writes_adapter())
        form = {.type = hub::StoredType::fp32,
                .adapter = peft::written_adapter(zero.units(), {}, weights.initial_adapter())};
    if (context.world.is_root()) run::remove_references(args.folder);
    if (auto failure = hub::export_weights(zero, args.folder, files, form, context.world))
        return failure;
    return run::write_references(args.folder, exported.spec,
                                 exported.merges ? run::Merged::yes : run::Merged::no, form, zero,
                                 mesh, context.world);
}

// Collective over the world.
MaybeFailure export_checkpoint(const run::CommandContext& context, const Args& args) {
    const comm::Group& world = context.world;
    const auto found =
        run::ExportedCheckpoint::find(world, args.source, context.settings.values.adapter.merge);
    if (!found) return found.failure();
    const run::ExportedCheckpoint& exported = found.value();
    if (auto failure = run::check_export_folder(exported, args.folder, world)) return failure;
    const auto files = run::files_of_export(exported, world);
    if (!files) return files.failure();
    const mesh::Mesh mesh(world, {.shard = world.size()}, at::kCPU);
    shard::Zero zero(model::make_units(exported.spec, mesh.shape().zero()), run::shards_everything,
                     {at::kFloat, at::kFloat}, mesh);
    auto weights = run::open_weights(context, exported);
    if (!weights) return weights.failure();
    if (auto failure = run::load_exported(exported, weights.value(), mesh, zero, world))
        return failure;
    if (auto failure = exported.has_several() ? write_several(exported.adapters, zero, args.folder,
                                                              files.value(), world)
                                              : write_exported(context, exported, weights.value(),
                                                               mesh, zero, args, files.value()))
        return failure;
    if (!world.is_root()) return std::nullopt;
    std::cout << "wrote " << args.folder.string() << ": " << exported.checkpoint.folder.string();
    if (exported.has_several())
        std::cout << ", its adapters " << join(exported.names(), ", ") << '\n';
    else if (exported.writes_adapter())
        std::cout << ", its adapter\n";
    else
        std::cout << " as " << context.settings.values.model.dtype << '\n';
    return std::nullopt;
}

}  // namespace

int run_export(const run::CommandContext& context) {
    const c10::InferenceMode no_autograd;
    const comm::Group& world = context.world;
    const auto args = parse_args(context.settings);
    if (!args) return report_failure(comm::found_by_all(args.failure()), world);
    const auto& [source, folder, form] = args.value();
    const bool is_adapter =
        world.maximum(world.is_root() && is_adapter_folder(source) ? 1 : 0) == 1;
    if (is_adapter && context.settings.values.adapter.merge)
        return merge_folder(context, source, folder, form);
    const auto failure = export_checkpoint(context, args.value());
    return failure ? report_failure(*failure, world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
