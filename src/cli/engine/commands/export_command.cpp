#include "engine_commands.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "loss_fingerprint.hpp"
#include "merge_folder.hpp"
#include "passed_tensors.hpp"
#include "pretrained.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/hub_cache.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/model/export_weights.hpp"
#include "ringshard/model/joint_adapters.hpp"
#include "ringshard/model/merge_adapters.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/model/quantize.hpp"
#include "run_adapters.hpp"
#include "run_state.hpp"

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

// Returns the candidates for the export, best first: the checkpoint that `checkpoint` names, or
// those of the run that it names.
Expected<std::vector<std::string>> find_candidates(const fs::path& source,
                                                   std::vector<std::string>& damaged) {
    if (!folder_exists(source))
        return Failure{ExitCode::missing_input,
                       format_text("checkpoint = {}: there is no such folder", source.string())};
    const std::string name = source.filename();
    if (name.starts_with("checkpoint-") && name.find(".tmp-") != std::string::npos)
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

// Adds the adapters to the weights of the model. Fails if there are none to merge.
std::optional<Failure> apply(std::optional<model::LoraConfig>& adapters, StoredJointAdapters& joint,
                             bool merges, const fs::path& checkpoint, model::ModelSpec& spec) {
    if (!joint.names.empty() && !merges)
        return model::add_joint_adapters(spec, joint.names, joint.configs);
    if (!joint.names.empty())
        return Failure{
            ExitCode::settings,
            format_text("merge: {} holds the adapters {}, and each of them makes another model; "
                        "export them without merge, and merge one of them with PEFT",
                        checkpoint.string(), join(joint.names, ", "))};
    if (adapters) return model::add_adapters(spec, *adapters);
    if (!merges) return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("merge: {} holds a whole model and no adapters; leave it out",
                               checkpoint.string())};
}

// The form in which a run held its frozen matrices.
shard::Form frozen_form_of(const checkpoint::Checkpoint& checkpoint) {
    if (setting_then(checkpoint, "load_in_4bit") != "true") return shard::Form::numbers;
    const bool is_nested = setting_then(checkpoint, "use_bnb_nested_quant") == "true";
    return is_nested ? shard::Form::nested_nf4 : shard::Form::nf4;
}

// Adapters that were trained beside weights in four bits belong to these, and not to those that
// were quantised. Collective over the world.
std::optional<comm::AgreedFailure> replace_quantized(const checkpoint::Checkpoint& checkpoint,
                                                     const Pretrained& weights,
                                                     model::ModelSpec spec, const mesh::Mesh& mesh,
                                                     const shard::Zero& zero,
                                                     const comm::Group& world) {
    const shard::Form form = frozen_form_of(checkpoint);
    if (form == shard::Form::numbers) return std::nullopt;
    if (const auto failure = model::quantize_frozen(spec, form))
        return comm::found_by_all(*failure);
    shard::Zero quantized(model::make_units(spec, mesh.shape().zero()), everything,
                          {at::kFloat, at::kFloat}, mesh);
    if (const auto loaded = weights.load(spec, quantized, world); !loaded) return loaded.failure();
    model::copy_dequantized(quantized, zero);
    return std::nullopt;
}

std::string untied_config(model::ModelSpec spec) {
    spec.untie();
    return spec.config_json;
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
        return name.ends_with(".safetensors") || name == model::index_name ||
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
    const auto chosen = choose_checkpoint(world, source);
    if (!chosen) return report_failure(chosen.failure(), world);
    const checkpoint::Checkpoint& checkpoint = chosen.value();
    auto spec = read_spec(world, checkpoint);
    if (!spec) return report_failure(spec.failure(), world);
    auto adapters = adapters_of(checkpoint);
    if (!adapters) return report_failure(comm::found_by_all(adapters.failure()), world);
    const bool merges = context.settings.values.adapter.merge;
    auto joint = joint_adapters_of(checkpoint);
    if (!joint) return report_failure(comm::found_by_all(joint.failure()), world);
    if (const auto failure =
            apply(adapters.value(), joint.value(), merges, checkpoint.folder, spec.value()))
        return report_failure(comm::found_by_all(*failure), world);
    if (merges && spec.value().tied && spec.value().head_adapter)
        return report_failure(
            comm::found_by_all(
                {ExitCode::settings,
                 format_text("merge: {} is tied to the embedding, which a checkpoint of an adapter "
                             "does not hold apart; export the adapter without merge, and then "
                             "merge that folder: trainer export FOLDER --merge true",
                             spec.value().names.head)}),
            world);
    if (const auto failure = merges ? model::refuse_merge(spec.value()) : std::nullopt)
        return report_failure(comm::found_by_all(*failure), world);
    if (const auto failure = comm::first_failure(
            world, world.is_root() ? check_output(checkpoint.folder, folder, joint.value().names)
                                   : std::nullopt))
        return report_failure(*failure, world);
    auto sidecar_files = read_sidecar_files(world, checkpoint.folder);
    if (!sidecar_files) return report_failure(sidecar_files.failure(), world);
    if (world.is_root()) sidecar_files.value()[record_name] = print_record(checkpoint.folder);
    const bool writes_adapter = adapters.value() && !merges;
    if (writes_adapter && world.is_root())
        model::turn_into_adapter_files(sidecar_files.value(),
                                       checkpoint.state.texts.at(model::adapter_text));
    else if (world.is_root() && spec.value().reads_head_from_embedding)
        sidecar_files.value()["config.json"] = untied_config(spec.value());

    const mesh::MeshShape shape{.shard = world.size()};
    const mesh::Mesh mesh(world, shape, at::kCPU);
    shard::Zero zero(model::make_units(spec.value(), shape.zero()), everything,
                     {at::kFloat, at::kFloat}, mesh);
    auto weights = open_weights(context, checkpoint, spec.value());
    if (!weights) return report_failure(weights.failure(), world);
    if (adapters.value() && adapters.value()->init.takes_from_weights())
        if (const auto failure =
                take_out_initial_adapter(checkpoint, spec.value(), weights.value(), world))
            return report_failure(*failure, world);
    if (const auto loaded = weights.value().load(spec.value(), zero, world); !loaded)
        return report_failure(loaded.failure(), world);
    if (!joint.value().names.empty()) {
        if (const auto failure =
                write_joint(joint.value(), zero, folder, sidecar_files.value(), world))
            return report_failure(*failure, world);
        if (world.is_root())
            std::cout << "wrote " << folder.string() << ": " << checkpoint.folder.string()
                      << ", its adapters " << join(joint.value().names, ", ") << '\n';
        return number(ExitCode::done);
    }
    if (adapters.value() && merges) {
        if (const auto failure =
                replace_quantized(checkpoint, weights.value(), spec.value(), mesh, zero, world))
            return report_failure(*failure, world);
        zero.refresh_compute_weights();
        model::merge_adapters(spec.value(), zero);
    }
    const auto passed = passed_tensors_of(context, checkpoint, spec.value());
    if (!passed) return report_failure(passed.failure(), world);
    if (const auto changed = check_passed(checkpoint, passed.value()))
        return report_failure(comm::found_by_all(*changed), world);
    model::ExportForm written = form;
    written.constants = spec.value().constants;
    if (passed.value()) written.wrapped = &passed.value()->files;
    if (writes_adapter)
        written = {.type = model::StoredType::fp32,
                   .content = model::ExportContent::adapter,
                   .initial = weights.value().initial_adapter()};
    if (const auto failure =
            model::export_weights(zero, folder, sidecar_files.value(), written, world))
        return report_failure(*failure, world);
    if (world.is_root())
        std::cout << "wrote " << folder.string() << ": " << checkpoint.folder.string()
                  << (writes_adapter ? ", its adapter" : " as ")
                  << (writes_adapter ? "" : context.settings.values.model.dtype) << '\n';
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
