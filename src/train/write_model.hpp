#pragma once

#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// Writes the model of a run, its adapter, or one of several adapters (`joint`), as a folder for
// from_pretrained of transformers or PEFT. Collective over the world.
std::optional<comm::AgreedFailure> write_model(
    const RunParts& parts, const std::filesystem::path& folder,
    const std::optional<model::ExportForm::WrittenAdapter>& joint = std::nullopt);

}  // namespace ringshard::train
