#include "engine_commands.hpp"

#include <c10/core/InferenceMode.h>

#include <iostream>

#include "exported_checkpoint.hpp"
#include "loss_fingerprint.hpp"
#include "merge_folder.hpp"
#include "passed_tensors.hpp"
#include "pretrained.hpp"
#include "references.hpp"
#include "ringshard/base/hub_cache.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/model/export_weights.hpp"
#include "ringshard/model/merge_adapters.hpp"
#include "ringshard/model/quantize.hpp"
#include "run_adapters.hpp"

namespace ringshard::cli {

namespace fs = std::filesystem;

namespace {

constexpr mesh::Cuts everything{true, true, true, false};

struct Args {
    fs::path source;  // a checkpoint, or the folder of a run
    fs::path folder;  // to be made
    model::ExportForm form;
};

Expected<Args> parse_args(const config::Settings& settings) {
    const config::ModelSettings& model = settings.values.model;
    const auto refuse = [](const std::string& what) { return Failure{ExitCode::settings, what}; };
    if (model.checkpoint.empty())
        return Failure{ExitCode::usage,
                       "name what to export: trainer export CHECKPOINT --output_dir FOLDER"};
    if (!settings.is_fixed("output_dir"))
        return refuse("output_dir is not set: name the folder for the model");
    const auto type = model::read_export_type(model.dtype);
    if (!type)
        return refuse(
            format_text("dtype = {}: a model is written as float32 or bfloat16", model.dtype));
    const auto shard_size = read_bytes(model.max_shard_size);
    if (!shard_size)
        return refuse(
            format_text("max_shard_size = {}: must be a size as 5GB, 200MB or a number of bytes",
                        model.max_shard_size));
    const fs::path written = fs::path(model.checkpoint).lexically_normal();
    return Args{written.has_filename() ? written : written.parent_path(),
                settings.values.run.output_dir,
                {*type, *shard_size}};
}

// The folder that model_name_or_path names, if it names one. Collective over the world.
comm::Agreed<std::optional<fs::path>> named_model(const CommandContext& context) {
    const config::ModelSettings& model = context.settings.values.model;
    if (model.model_name_or_path.empty()) return std::optional<fs::path>();
    const HubCache hub(context.environment);
    const auto found = comm::of_root(context.world, [&]() -> Expected<std::string> {
        const auto folder =
            hub.model_folder(model.model_name_or_path, model.model_revision, "model_name_or_path");
        if (!folder) return folder.failure();
        return folder.value().string();
    });
    if (!found) return found.failure();
    return std::optional<fs::path>(found.value());
}

// Opens a verified checkpoint with the pretrained model of its frozen weights: the one that the
// checkpoint names, unless the settings name another. Collective over the world.
comm::Agreed<Pretrained> open_weights(const CommandContext& context,
                                      const checkpoint::Checkpoint& checkpoint,
                                      const model::ModelSpec& spec) {
    std::optional<fs::path> base;
    if (checkpoint.state.texts.contains(checkpoint::frozen_text)) {
        const auto named = named_model(context);
        if (!named) return named.failure();
        base = named.value();
    }
    return Pretrained::open(checkpoint.folder, spec, Pretrained::Wanted::all,
                            checkpoint::Verification::sizes, context.world, base);
}

// The tensors that pass through, from the model that the settings name, or the checkpoint.
// Collective over the world.
comm::Agreed<std::optional<PassedTensors>> passed_tensors_of(
    const CommandContext& context, const checkpoint::Checkpoint& checkpoint,
    const model::ModelSpec& spec) {
    if (!spec.is_wrapped) return std::optional<PassedTensors>();
    const auto named = named_model(context);
    if (!named) return named.failure();
    return find_passed_tensors(named.value().value_or(checkpoint.folder), spec, context.world);
}

// The form in which a run held its frozen matrices.
shard::Codec frozen_form_of(const checkpoint::Checkpoint& checkpoint) {
    if (setting_then(checkpoint, "load_in_4bit") != "true") return shard::Codec::compute;
    const bool is_nested = setting_then(checkpoint, "use_bnb_nested_quant") == "true";
    return is_nested ? shard::Codec::nested_nf4 : shard::Codec::nf4;
}

// Adapters that were trained beside weights in four bits belong to these, and not to those that
// were quantised. Collective over the world.
std::optional<comm::AgreedFailure> replace_quantized(const checkpoint::Checkpoint& checkpoint,
                                                     const Pretrained& weights,
                                                     model::ModelSpec spec, const mesh::Mesh& mesh,
                                                     const shard::Zero& zero,
                                                     const comm::Group& world) {
    const shard::Codec form = frozen_form_of(checkpoint);
    if (form == shard::Codec::compute) return std::nullopt;
    if (const auto failure = model::quantize_frozen(spec, form))
        return comm::found_by_all(*failure);
    shard::Zero quantized(model::make_units(spec, mesh.shape().zero()), everything,
                          {at::kFloat, at::kFloat}, mesh);
    if (const auto loaded = weights.load(spec, quantized, world); !loaded) return loaded.failure();
    model::copy_dequantized(quantized, zero);
    return std::nullopt;
}

// Writes each of the adapters that trained together into a folder of its name. Collective over the
// world.
std::optional<comm::AgreedFailure> write_joint(const StoredJointAdapters& joint,
                                               const shard::Zero& zero, const fs::path& folder,
                                               const std::map<std::string, std::string>& files,
                                               const comm::Group& world) {
    for (size_t number = 0; number < joint.names.size(); ++number) {
        std::map<std::string, std::string> of_adapter = files;
        if (world.is_root()) model::turn_into_adapter_files(of_adapter, joint.texts[number]);
        const model::ExportForm form{.type = model::StoredType::fp32,
                                     .content = model::ExportContent::adapter,
                                     .joint = {{number, joint.names[number]}}};
        if (auto failure = model::export_weights(zero, folder / joint.names[number],
                                                 std::move(of_adapter), form, world))
            return failure;
    }
    return std::nullopt;
}

using MaybeFailure = std::optional<comm::AgreedFailure>;

// Fills `zero` with the weights of the checkpoint, as they are written. Collective over the world.
MaybeFailure load_exported(const ExportedCheckpoint& exported, Pretrained& weights,
                           const mesh::Mesh& mesh, shard::Zero& zero, const comm::Group& world) {
    if (exported.adapter && exported.adapter->init.takes_from_weights())
        if (const auto failure =
                take_out_initial_adapter(exported.checkpoint, exported.spec, weights, world))
            return failure;
    if (const auto loaded = weights.load(exported.spec, zero, world); !loaded)
        return loaded.failure();
    if (!exported.adapter || !exported.merges) return std::nullopt;
    if (const auto failure =
            replace_quantized(exported.checkpoint, weights, exported.spec, mesh, zero, world))
        return failure;
    zero.refresh_compute_weights();
    model::merge_adapters(exported.spec, zero);
    return std::nullopt;
}

// Writes the model of the checkpoint, or its adapter, and what it computes. Collective over the
// world.
MaybeFailure write_exported(const CommandContext& context, const ExportedCheckpoint& exported,
                            const Pretrained& weights, const mesh::Mesh& mesh, shard::Zero& zero,
                            const Args& args, const std::map<std::string, std::string>& files) {
    const auto passed = passed_tensors_of(context, exported.checkpoint, exported.spec);
    if (!passed) return passed.failure();
    if (const auto changed = check_passed(exported.checkpoint, passed.value()))
        return comm::found_by_all(*changed);
    model::ExportForm form = args.form;
    form.constants = exported.spec.constants;
    if (passed.value()) form.wrapped = &passed.value()->files;
    if (exported.writes_adapter())
        form = {.type = model::StoredType::fp32,
                .content = model::ExportContent::adapter,
                .initial = weights.initial_adapter()};
    if (context.world.is_root()) remove_references(args.folder);
    if (auto failure = model::export_weights(zero, args.folder, files, form, context.world))
        return failure;
    return write_references(args.folder, exported.spec, exported.merges ? Merged::yes : Merged::no,
                            form, zero, mesh, context.world);
}

// Collective over the world.
MaybeFailure export_checkpoint(const CommandContext& context, const Args& args) {
    const comm::Group& world = context.world;
    const auto found =
        ExportedCheckpoint::find(world, args.source, context.settings.values.adapter.merge);
    if (!found) return found.failure();
    const ExportedCheckpoint& exported = found.value();
    if (auto failure = check_export_folder(exported, args.folder, world)) return failure;
    const auto files = files_of_export(exported, world);
    if (!files) return files.failure();
    const mesh::Mesh mesh(world, {.shard = world.size()}, at::kCPU);
    shard::Zero zero(model::make_units(exported.spec, mesh.shape().zero()), everything,
                     {at::kFloat, at::kFloat}, mesh);
    auto weights = open_weights(context, exported.checkpoint, exported.spec);
    if (!weights) return weights.failure();
    if (auto failure = load_exported(exported, weights.value(), mesh, zero, world)) return failure;
    const bool is_joint = !exported.joint.names.empty();
    if (auto failure = is_joint
                           ? write_joint(exported.joint, zero, args.folder, files.value(), world)
                           : write_exported(context, exported, weights.value(), mesh, zero, args,
                                            files.value()))
        return failure;
    if (!world.is_root()) return std::nullopt;
    std::cout << "wrote " << args.folder.string() << ": " << exported.checkpoint.folder.string();
    if (is_joint)
        std::cout << ", its adapters " << join(exported.joint.names, ", ") << '\n';
    else if (exported.writes_adapter())
        std::cout << ", its adapter\n";
    else
        std::cout << " as " << context.settings.values.model.dtype << '\n';
    return std::nullopt;
}

}  // namespace

int run_export(const CommandContext& context) {
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
