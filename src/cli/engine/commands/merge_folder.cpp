#include "merge_folder.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hub_cache.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/hub/tied_head.hpp"
#include "ringshard/peft/adapters.hpp"
#include "ringshard/peft/merge_adapters.hpp"
#include "ringshard/run/passed_tensors.hpp"
#include "ringshard/run/pretrained.hpp"
#include "ringshard/run/references.hpp"
#include "ringshard/run/run_state.hpp"

namespace ringshard::cli {

namespace fs = std::filesystem;

namespace {

constexpr mesh::Cuts all_sharded{true, true, true, false};

// On every rank. `text`: of adapter_config.json.
Expected<AdapterAndBase> find_base(const run::CommandContext& context, const fs::path& adapter,
                                   const std::string& text) {
    auto config = peft::parse_adapter_config(text, (adapter / peft::adapter_config_name).string());
    if (!config) return config.failure();
    if (config.value().init.takes_from_weights())
        return Failure{ExitCode::bad_data,
                       format_text("{}: its init_lora_weights takes the adapter out of the "
                                   "weights of the model, which are others then; let PEFT write it "
                                   "for the whole weights: save_pretrained(FOLDER, "
                                   "path_initial_model_for_weight_conversion=...)",
                                   adapter.string())};
    const config::ModelSettings& model = context.settings.values.model;
    std::string name = model.model_name_or_path;
    const auto fields = json_or_null<nlohmann::json>(text);
    const auto named = fields.find("base_model_name_or_path");
    if (name.empty() && named != fields.end() && named->is_string())
        name = named->get<std::string>();
    if (name.empty())
        return Failure{ExitCode::settings,
                       format_text("merge: {} does not name its model; name it: "
                                   "--model_name_or_path MODEL",
                                   (adapter / peft::adapter_config_name).string())};
    const HubCache hub(context.environment);
    auto base = hub.model_folder(name, model.model_revision, "model_name_or_path");
    if (!base) return base.failure();
    return AdapterAndBase{std::move(config).value(), base.value()};
}

// The model with its adapter. Collective over the world.
comm::Agreed<model::ModelSpec> spec_of(AdapterAndBase& found, const comm::Group& world) {
    auto spec = comm::agreed(world, model::read_model_spec(found.base / "config.json"));
    if (!spec) return spec.failure();
    if (const auto failure = untie_if_apart(found.base, world, spec.value())) return *failure;
    auto failure = peft::add_adapter(spec.value(), found.config);
    if (!failure) failure = peft::refuse_merge(spec.value());
    if (failure) return comm::found_by_all(*failure);
    if (spec.value().adapters_part_tied_head()) {
        // Else the embedding and the output layer would change together.
        spec.value().tied = false;
        spec.value().reads_head_from_embedding = true;
        spec.value().frozen.insert(spec.value().names.head + ".weight");
    }
    return spec;
}

// The model's files beside the weights, with the tokenizer of the adapter. Collective over the
// world.
comm::Agreed<std::map<std::string, std::string>> files_of(const fs::path& base,
                                                          const fs::path& adapter,
                                                          model::ModelSpec spec,
                                                          const comm::Group& world) {
    auto files = run::read_sidecar_files(world, base);
    if (!files) return files;
    const auto own = run::read_sidecar_files(world, adapter);
    if (!own) return own;
    for (const auto& [name, content] : own.value()) files.value()[name] = content;
    if (spec.reads_head_from_embedding) spec.untie();
    if (world.is_root()) files.value()["config.json"] = spec.config_json;
    return files;
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) {
    return file_exists(folder / peft::adapter_config_name) &&
           file_exists(folder / hub::adapter_weights_name) &&
           !file_exists(folder / "manifest.json") && !file_exists(folder / "latest");
}

comm::Agreed<AdapterAndBase> read_adapter(const run::CommandContext& context,
                                          const fs::path& adapter) {
    const comm::Group& world = context.world;
    const auto text = comm::of_root(world, [&]() -> Expected<std::string> {
        auto content = read_file(adapter / peft::adapter_config_name);
        if (content) return std::move(*content);
        return Failure{
            ExitCode::missing_input,
            format_text("{}: cannot be read", (adapter / peft::adapter_config_name).string())};
    });
    if (!text) return text.failure();
    return comm::agreed(world, find_base(context, adapter, text.value()));
}

std::optional<comm::AgreedFailure> untie_if_apart(const fs::path& base, const comm::Group& world,
                                                  model::ModelSpec& spec) {
    if (!spec.tied) return std::nullopt;
    const auto stored = hub::StoredModel::open(base, world);
    if (!stored) return stored.failure();
    if (!hub::holds_head_and_embedding(stored.value(), spec.names)) return std::nullopt;
    const auto is_equal = comm::agreed(
        world, hub::is_head_the_embedding(stored.value(), spec.names, world.rank(), world.size()));
    if (!is_equal) return is_equal.failure();
    if (!world.all(is_equal.value())) spec.untie();
    return std::nullopt;
}

int merge_folder(const run::CommandContext& context, const fs::path& adapter,
                 const fs::path& folder, hub::ExportForm form) {
    const comm::Group& world = context.world;
    auto found = read_adapter(context, adapter);
    if (!found) return report_failure(found.failure(), world);
    const auto spec = spec_of(found.value(), world);
    if (!spec) return report_failure(spec.failure(), world);
    const auto files = files_of(found.value().base, adapter, spec.value(), world);
    if (!files) return report_failure(files.failure(), world);

    const mesh::MeshShape shape{.shard = world.size()};
    const mesh::Mesh mesh(world, shape, at::kCPU);
    shard::Zero zero(model::make_units(spec.value(), shape.zero()), all_sharded,
                     {at::kFloat, at::kFloat}, mesh);
    auto weights =
        run::Pretrained::open(found.value().base, spec.value(), run::Pretrained::Wanted::all,
                              checkpoint::Verification::sizes, world);
    if (!weights) return report_failure(weights.failure(), world);
    if (const auto failure = weights.value().begin_adapters(spec.value(), {{{}, adapter}}, world))
        return report_failure(*failure, world);
    if (const auto loaded = weights.value().load(spec.value(), zero, world); !loaded)
        return report_failure(loaded.failure(), world);
    zero.refresh_compute_weights();
    peft::merge_adapters(spec.value(), zero);
    const auto passed = run::find_passed_tensors(found.value().base, spec.value(), world);
    if (!passed) return report_failure(passed.failure(), world);
    form.constants = spec.value().constants;
    if (passed.value()) form.wrapped = &passed.value()->files;
    if (world.is_root()) run::remove_references(folder);
    auto failure = hub::export_weights(zero, folder, files.value(), form, world);
    if (!failure)
        failure =
            run::write_references(folder, spec.value(), run::Merged::yes, form, zero, mesh, world);
    if (failure) return report_failure(*failure, world);
    if (world.is_root())
        std::cout << "wrote " << folder.string() << ": " << found.value().base.string() << " with "
                  << adapter.string() << " as " << context.settings.values.model.dtype << '\n';
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
