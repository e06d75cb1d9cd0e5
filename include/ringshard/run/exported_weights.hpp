#pragma once

#include <filesystem>
#include <optional>

#include "ringshard/mesh/mesh.hpp"
#include "ringshard/run/exported_checkpoint.hpp"
#include "ringshard/run/pretrained.hpp"

namespace ringshard::run {

// The cuts of a model that is read and computed with, but not trained.
inline constexpr mesh::Cuts shards_everything{true, true, true, false};

// Returns the folder that model_name_or_path names, if it names one. Collective over the world.
comm::Agreed<std::optional<std::filesystem::path>> named_model(const CommandContext& context);

// Opens the checkpoint with the pretrained model of its frozen weights: the one that the checkpoint
// names, unless the settings name another. Collective over the world.
comm::Agreed<Pretrained> open_weights(const CommandContext& context,
                                      const ExportedCheckpoint& exported);

// Fills `zero` with these weights as an export writes them. Collective over the world.
std::optional<comm::AgreedFailure> load_exported(const ExportedCheckpoint& exported,
                                                 Pretrained& weights, const mesh::Mesh& mesh,
                                                 shard::Zero& zero, const comm::Group& world);

}  // namespace ringshard::run
