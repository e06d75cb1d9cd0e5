#include "write_model.hpp"

#include "ringshard/model/adapters.hpp"

namespace ringshard::train {

std::optional<comm::AgreedFailure> write_model(
    const RunParts& parts, const std::filesystem::path& folder,
    const std::optional<model::ExportForm::WrittenAdapter>& joint) {
    std::map<std::string, std::string> files = parts.extras.files;
    model::ExportForm form = parts.model_form;
    if (model::has_adapters(parts.zero.units())) {
        form = {.type = model::StoredType::fp32,
                .content = model::ExportContent::adapter,
                .initial = parts.initial_adapter,
                .joint = joint};
        if (parts.world.is_root())
            model::turn_into_adapter_files(files, joint
                                                      ? parts.adapter_configs[joint->number]
                                                      : parts.extras.texts.at(model::adapter_text));
    }
    return model::export_weights(
        parts.zero, folder, std::move(files), form, parts.world,
        [&] { return check_newest(parts.store.claim()); },
        parts.frozen_source ? &*parts.frozen_source : nullptr);
}

}  // namespace ringshard::train
