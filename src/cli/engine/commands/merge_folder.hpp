#pragma once

#include <filesystem>

#include "ringshard/cli/engine.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/peft/adapters.hpp"

namespace ringshard::cli {

// Returns true for the folder of an adapter, as PEFT or a run without checkpoints writes it.
bool is_adapter_folder(const std::filesystem::path& folder);

struct AdapterAndBase {
    peft::LoraConfig config;
    std::filesystem::path base;
};
// Reads adapter_config.json, and finds the model that model_name_or_path names, else the one that
// is named there. Collective over the world.
comm::Agreed<AdapterAndBase> read_adapter(const run::CommandContext& context,
                                          const std::filesystem::path& adapter);

// The head is apart where the files hold one that differs from the embedding, as in transformers.
// Collective over the world.
std::optional<comm::AgreedFailure> untie_if_apart(const std::filesystem::path& base,
                                                  const comm::Group& world, model::ModelSpec& spec);

// Writes the model of an adapter's folder with the adapter added to its weights: the model that
// model_name_or_path names, else the one in adapter_config.json. Returns the exit code. Collective
// over the world.
int merge_folder(const run::CommandContext& context, const std::filesystem::path& adapter,
                 const std::filesystem::path& folder, hub::ExportForm form);

}  // namespace ringshard::cli
