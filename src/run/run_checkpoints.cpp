#include "run_checkpoints.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/peft/written_adapter.hpp"
#include "ringshard/run/library_versions.hpp"
#include "test_hooks.hpp"

namespace ringshard::run {

checkpoint::SaveOptions save_options(const CommandContext& context) {
    const config::Config& config = context.settings.values;
    return {
        .one_file_per_node = config.parallel.fsdp_state_dict_type == config::StateDictType::sharded,
        .through_mpio = config.checkpoint.hdf5_io == config::Hdf5Io::mpio,
        .hints = config.checkpoint.hdf5_hint,
        .ranks_per_node = test_hooks::ranks_per_node(context.environment)};
}

checkpoint::Extras extras_of(const CommandContext& context, const mesh::MeshShape& shape,
                             const LossFingerprint& fingerprint,
                             const std::map<std::string, std::string>& sidecar_files) {
    return {sidecar_files,
            {{"settings", config::print_yaml(context.settings, config::OptionTable())},
             {"curve", to_text(fingerprint)},
             {"versions", versions_text()},
             {"mesh", to_text(shape)}}};
}

std::vector<std::string> adapter_configs(const config::Config& config, const RunInputs& inputs) {
    std::vector<std::string> configs;
    for (const AskedAdapter& adapter : inputs.adapters)
        configs.push_back(
            peft::print_adapter_config(adapter.config, config.model.model_name_or_path));
    return configs;
}

void add_adapter_config(checkpoint::Extras& extras, const config::Config& config,
                        const RunInputs& inputs) {
    if (!inputs.spec.has_adapters()) return;
    const std::vector<std::string> configs = adapter_configs(config, inputs);
    if (!are_several(inputs.adapters)) {
        extras.texts[peft::adapter_text] = configs.front();
        return;
    }
    nlohmann::ordered_json by_name;
    for (const AskedAdapter& adapter : inputs.adapters)
        by_name[adapter.name] = configs[by_name.size()];
    extras.texts[peft::named_adapters_text] = by_name.dump();
}

hub::StoredType find_written_type(const CommandContext& context,
                                  const std::map<std::string, std::string>& sidecar_files) {
    const auto config = sidecar_files.find("config.json");
    const bool is_bf16 = hub::written_type(context.settings.values.model.dtype,
                                           config == sidecar_files.end() ? "" : config->second) ==
                         hub::StoredType::bf16;
    return context.world.maximum(is_bf16 ? 1 : 0) == 1 ? hub::StoredType::bf16
                                                       : hub::StoredType::fp32;
}

namespace {

// The tensors that pass through, which this rank copies, by the file that they belong into.
std::vector<std::vector<checkpoint::CopiedBytes>> copied_bytes(const hub::WeightFiles& planned,
                                                               const hub::WrappedFiles& wrapped,
                                                               const comm::Group& world) {
    std::vector<std::vector<checkpoint::CopiedBytes>> files(planned.files.size());
    for (const hub::PassedBytes& passed :
         hub::passed_bytes(planned, wrapped, world.rank(), world.size()))
        files[passed.file].push_back({passed.offset, passed.count,
                                      [&wrapped, passed](int64_t first, std::span<std::byte> into) {
                                          return wrapped.stored().read_bytes(
                                              *passed.tensor, passed.first + first, into);
                                      }});
    return files;
}

// Elements of an adapter lie in its file as that says.
checkpoint::ChangeElements writing_by(std::shared_ptr<const hub::AdapterTensors> adapter) {
    return [adapter = std::move(adapter)](const std::string& dataset, int64_t first,
                                          std::span<const float> values,
                                          const checkpoint::WriteElements& write) {
        return adapter->write(dataset.substr(std::string_view(checkpoint::weights_group).size()),
                              first, values, write);
    };
}

// Adds the files of weights, by their names below `folder`.
void add_files(checkpoint::Extras& extras, const shard::Zero& zero, const hub::ExportForm& form,
               const std::string& folder, const comm::Group& world) {
    const auto element = form.type == hub::StoredType::bf16 ? checkpoint::ElementType::bf16
                                                            : checkpoint::ElementType::fp32;
    hub::WeightFiles planned = hub::plan_weight_files(zero.units(), form);
    std::vector<std::vector<checkpoint::CopiedBytes>> copied(planned.files.size());
    if (form.wrapped != nullptr) copied = copied_bytes(planned, *form.wrapped, world);
    for (size_t number = 0; number < planned.files.size(); ++number) {
        hub::WeightFile& file = planned.files[number];
        checkpoint::ModelFile copy{
            folder + file.name, std::move(file.header), {}, element, std::move(copied[number])};
        for (const auto& [tensor, offset] : file.offsets)
            copy.offsets[checkpoint::weights_group + tensor] = offset;
        if (form.adapter) copy.change = writing_by(form.adapter);
        extras.model.push_back(std::move(copy));
    }
    if (!planned.index.empty())
        extras.model.push_back({hub::index_name, std::move(planned.index), {}, element});
}

// Adds the one adapter, or each of several in a folder of its name. The configuration of the one
// lies beside the other files of a checkpoint.
void add_adapters_of(checkpoint::Extras& extras, const shard::Zero& zero,
                     const peft::InitialAdapter* initial, const comm::Group& world) {
    hub::ExportForm form{.type = hub::StoredType::fp32};
    size_t number = 0;
    const auto adapters = stored_adapters_of(extras.texts, "this run");
    for (const auto& [name, text, config] : adapters.value()) {
        const std::string folder = name.empty() ? "" : name + "/";
        form.adapter = peft::written_adapter(zero.units(), {number++, name}, initial);
        std::map<std::string, std::string> beside;
        peft::turn_into_adapter_files(beside, text);
        if (name.empty())
            extras.files.merge(beside);
        else
            for (const auto& [file, content] : beside)
                extras.model.push_back({folder + file, content, {}});
        add_files(extras, zero, form, folder, world);
    }
}

}  // namespace

std::optional<comm::AgreedFailure> add_model(checkpoint::Extras& extras, const shard::Zero& zero,
                                             const hub::ExportForm& form,
                                             const peft::InitialAdapter* initial,
                                             const comm::Group& world) {
    std::optional<Failure> failure;
    if (const auto config = extras.files.find("config.json"); config != extras.files.end()) {
        auto typed = hub::config_with_type(config->second, form.type);
        if (typed)
            config->second = std::move(typed).value();
        else
            failure = typed.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    extras.model.clear();
    if (peft::has_adapters(zero.units())) {
        add_adapters_of(extras, zero, initial, world);
        return std::nullopt;
    }
    add_files(extras, zero, form, "", world);
    extras.frozen = checkpoint::frozen_parts(zero);
    return std::nullopt;
}

}  // namespace ringshard::run
