#include "write_model.hpp"

#include "ringshard/data/reference_rows.hpp"
#include "ringshard/hub/passed_hash.hpp"
#include "ringshard/peft/adapters.hpp"
#include "ringshard/peft/written_adapter.hpp"

namespace ringshard::train {

namespace {

// Fails (65) if the tensors that pass through are no longer those with which the run began.
// Collective over the world.
std::optional<comm::AgreedFailure> check_passed(const RunParts& parts,
                                                const hub::ExportForm& form) {
    const auto then = parts.extras.texts.find(hub::passed_hash_text);
    if (form.wrapped == nullptr || then == parts.extras.texts.end()) return std::nullopt;
    const auto now = hub::hash_of_passed(*form.wrapped, parts.world);
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
    hub::ExportForm form = parts.model_form;
    if (peft::has_adapters(parts.zero.units())) {
        form = {.type = hub::StoredType::fp32,
                .adapter = peft::written_adapter(
                    parts.zero.units(), {learner, parts.trainer.learners()[learner].name()},
                    parts.initial_adapter)};
        if (parts.world.is_root())
            peft::turn_into_adapter_files(files, parts.adapter_configs.at(learner));
    }
    if (auto failure = check_passed(parts, form)) return failure;
    return hub::export_weights(
        parts.zero, folder, std::move(files), form, parts.world,
        [&] { return check_newest(parts.store.claim()); },
        parts.frozen_source ? &*parts.frozen_source : nullptr);
}

}  // namespace ringshard::train
