#pragma once

#include <map>
#include <string>
#include <vector>

#include "ringshard/checkpoint/saver.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/loss_fingerprint.hpp"
#include "ringshard/run/run_inputs.hpp"

namespace ringshard::run {

// Returns the form of checkpoints that the settings name.
checkpoint::SaveOptions save_options(const CommandContext& context);

// The texts and files of every checkpoint of the run. `sidecar_files`: on rank 0.
checkpoint::Extras extras_of(const CommandContext& context, const mesh::MeshShape& shape,
                             const LossFingerprint& fingerprint,
                             const std::map<std::string, std::string>& sidecar_files);

// adapter_config.json of each of the adapters that train together.
std::vector<std::string> adapter_configs(const config::Config& config, const RunInputs& inputs);

// Adds adapter_config.json to every checkpoint of a run with adapters.
void add_adapter_config(checkpoint::Extras& extras, const config::Config& config,
                        const RunInputs& inputs);

// Returns the type of the written model, by the setting dtype. auto: the type that config.json of
// the model names, if models can be written in it, else float32. `sidecar_files`: on rank 0.
// Collective over the world.
hub::StoredType find_written_type(const CommandContext& context,
                                  const std::map<std::string, std::string>& sidecar_files);

// Adds a Hugging Face model of these weights to every checkpoint, or the adapter that is trained,
// in place of one added before. `initial`: as of ExportForm. This and the files of a wrapped model
// in the form must outlive the extras. Collective over the world.
std::optional<comm::AgreedFailure> add_model(checkpoint::Extras& extras, const shard::Zero& zero,
                                             const hub::ExportForm& form,
                                             const peft::InitialAdapter* initial,
                                             const comm::Group& world);

}  // namespace ringshard::run
