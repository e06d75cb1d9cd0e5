#include "run_checkpoints.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/model/adapter_variants.hpp"
#include "ringshard/run/library_versions.hpp"
#include "ringshard/run/test_hooks.hpp"

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
    const auto add = [&](const model::LoraConfig& adapter) {
        configs.push_back(model::print_adapter_config(adapter, config.model.model_name_or_path));
    };
    for (const AdapterInJob& adapter : inputs.adapters.variants) add(adapter.config);
    if (configs.empty()) add(inputs.adapters.config);
    return configs;
}

void add_adapter_config(checkpoint::Extras& extras, const config::Config& config,
                        const RunInputs& inputs) {
    if (!model::has_adapters(inputs.spec)) return;
    const std::vector<std::string> configs = adapter_configs(config, inputs);
    nlohmann::ordered_json by_name;
    for (const AdapterInJob& adapter : inputs.adapters.variants)
        by_name[adapter.name] = configs[by_name.size()];
    if (by_name.empty())
        extras.texts[model::adapter_text] = configs.front();
    else
        extras.texts[model::adapter_variants_text] = by_name.dump();
}

model::StoredType find_written_type(const CommandContext& context,
                                    const std::map<std::string, std::string>& sidecar_files) {
    const auto config = sidecar_files.find("config.json");
    const bool is_bf16 = model::written_type(context.settings.values.model.dtype,
                                             config == sidecar_files.end() ? "" : config->second) ==
                         model::StoredType::bf16;
    return context.world.maximum(is_bf16 ? 1 : 0) == 1 ? model::StoredType::bf16
                                                       : model::StoredType::fp32;
}

namespace {

// The tensors that pass through, which this rank copies, by the file that they belong into.
std::vector<std::vector<checkpoint::CopiedBytes>> copied_bytes(const model::WeightFiles& planned,
                                                               const model::WrappedFiles& wrapped,
                                                               const comm::Group& world) {
    std::vector<std::vector<checkpoint::CopiedBytes>> files(planned.files.size());
    for (const model::PassedBytes& passed :
         model::passed_bytes(planned, wrapped, world.rank(), world.size()))
        files[passed.file].push_back({passed.offset, passed.count,
                                      [&wrapped, passed](int64_t first, std::span<std::byte> into) {
                                          return wrapped.stored().read_bytes(
                                              *passed.tensor, passed.first + first, into);
                                      }});
    return files;
}

// An adapter that began as a part of the weights is written as one of twice the rank.
checkpoint::ChangeElements widening_by(const model::InitialAdapter& initial) {
    return [&initial](const std::string& dataset, int64_t first, std::span<const float> values,
                      const checkpoint::WriteElements& write) {
        return initial.write_widened(
            dataset.substr(std::string_view(checkpoint::weights_group).size()), first, values,
            write);
    };
}

// Adds the files of weights, by their names below `folder`.
void add_files(checkpoint::Extras& extras, const shard::Zero& zero, const model::ExportForm& form,
               const std::string& folder, const comm::Group& world) {
    const auto element = form.type == model::StoredType::bf16 ? checkpoint::ElementType::bf16
                                                              : checkpoint::ElementType::fp32;
    model::WeightFiles planned = model::plan_weight_files(zero.units(), form);
    std::vector<std::vector<checkpoint::CopiedBytes>> copied(planned.files.size());
    if (form.wrapped != nullptr) copied = copied_bytes(planned, *form.wrapped, world);
    for (size_t number = 0; number < planned.files.size(); ++number) {
        model::WeightFile& file = planned.files[number];
        checkpoint::ModelFile copy{
            folder + file.name, std::move(file.header), {}, element, std::move(copied[number])};
        for (const auto& [tensor, offset] : file.offsets)
            copy.offsets[checkpoint::weights_group + tensor] = offset;
        if (form.initial != nullptr) copy.change = widening_by(*form.initial);
        extras.model.push_back(std::move(copy));
    }
    if (!planned.index.empty())
        extras.model.push_back({model::index_name, std::move(planned.index), {}, element});
}

// Adds the one adapter, or each of several in a folder of its name. The configuration of the one
// lies beside the other files of a checkpoint.
void add_adapters_of(checkpoint::Extras& extras, const shard::Zero& zero, model::ExportForm form,
                     const comm::Group& world) {
    const auto variants = extras.texts.find(model::adapter_variants_text);
    if (variants == extras.texts.end()) {
        std::map<std::string, std::string> beside;
        model::turn_into_adapter_files(beside, extras.texts.at(model::adapter_text));
        extras.files.merge(beside);
        return add_files(extras, zero, form, "", world);
    }
    const auto by_name = parse_json<nlohmann::ordered_json>(variants->second).value();
    size_t number = 0;
    for (const auto& [name, config] : by_name.items()) {
        const std::string folder = name + "/";
        form.variant = {number++, name};
        extras.model.push_back(
            {folder + model::adapter_config_name, config.get<std::string>(), {}});
        add_files(extras, zero, form, folder, world);
    }
}

}  // namespace

std::optional<comm::AgreedFailure> add_model(checkpoint::Extras& extras, const shard::Zero& zero,
                                             const model::ExportForm& form,
                                             const model::InitialAdapter* initial,
                                             const comm::Group& world) {
    std::optional<Failure> failure;
    if (const auto config = extras.files.find("config.json"); config != extras.files.end()) {
        auto typed = model::config_with_type(config->second, form.type);
        if (typed)
            config->second = std::move(typed).value();
        else
            failure = typed.failure();
    }
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    extras.model.clear();
    if (model::has_adapters(zero.units())) {
        add_adapters_of(extras, zero,
                        {.type = model::StoredType::fp32,
                         .content = model::ExportContent::adapter,
                         .initial = initial},
                        world);
        return std::nullopt;
    }
    add_files(extras, zero, form, "", world);
    extras.frozen = checkpoint::frozen_parts(zero);
    return std::nullopt;
}

}  // namespace ringshard::run
