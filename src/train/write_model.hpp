#pragma once

#include "ringshard/train/training_loop.hpp"

namespace ringshard::train {

// Writes the model or the adapter of a learner, as a folder for from_pretrained of transformers or
// PEFT. Collective over the world.
std::optional<comm::AgreedFailure> write_model(const RunParts& parts,
                                               const std::filesystem::path& folder, size_t learner);

}  // namespace ringshard::train
