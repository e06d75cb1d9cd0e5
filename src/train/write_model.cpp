#include "write_model.hpp"

#include "ringshard/data/reference_rows.hpp"
#include "ringshard/model/adapters.hpp"
#include "ringshard/model/passed_hash.hpp"

namespace ringshard::train {

namespace {

// Fails (65) if the tensors that pass through are no longer those with which the run began.
// Collective over the world.
std::optional<comm::AgreedFailure> check_passed(const RunParts& parts,
                                                const model::ExportForm& form) {
    const auto then = parts.extras.texts.find(model::passed_hash_text);
    if (form.wrapped == nullptr || then == parts.extras.texts.end()) return std::nullopt;
    const auto now = model::hash_of_passed(*form.wrapped, parts.world);
    if (!now) return now.failure();
    if (now.value() == then->second) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::bad_data,
         "model_name_or_path: the tensors that pass through unchanged have changed since the run "
         "began, and the model cannot be written; put them back, and the same command goes on"});
}

}  // namespace

std::optional<comm::AgreedFailure> write_model(const RunParts& parts,
                                               const std::filesystem::path& folder,
                                               size_t learner) {
    std::map<std::string, std::string> files = parts.extras.files;
    files.erase(data::References::file_name);  // that of the last checkpoint
    model::ExportForm form = parts.model_form;
    if (model::has_adapters(parts.zero.units())) {
        form = {.type = model::StoredType::fp32,
                .content = model::ExportContent::adapter,
                .initial = parts.initial_adapter,
                .variant = {learner, parts.trainer.learners()[learner].name()}};
        if (parts.world.is_root())
            model::turn_into_adapter_files(files, parts.adapter_configs.at(learner));
    }
    if (auto failure = check_passed(parts, form)) return failure;
    return model::export_weights(
        parts.zero, folder, std::move(files), form, parts.world,
        [&] { return check_newest(parts.store.claim()); },
        parts.frozen_source ? &*parts.frozen_source : nullptr);
}

}  // namespace ringshard::train
