#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/peft/adapters.hpp"
#include "ringshard/run/pretrained.hpp"

namespace ringshard::run {

// One of several adapters that train together, with the settings of a run of its own.
struct AdapterInJob {
    std::string name;
    config::Settings settings;
    peft::LoraConfig config{};
    std::filesystem::path folder{};  // of an adapter to go on from; empty: it begins anew
};

// The adapters that the settings ask for.
struct AskedAdapters {
    peft::LoraConfig config{};
    std::filesystem::path folder{};        // of an adapter to go on from; empty: they begin anew
    std::vector<AdapterInJob> variants{};  // in their place
};

// A learner of a run, with the settings of a run of its own. One without a name has those of the
// run.
struct LearnerInJob {
    std::string name;
    const config::Settings& settings;
};
// Returns the learners: each of several adapters, or the model. The arguments must outlive them.
std::vector<LearnerInJob> learners_of(const config::Settings& settings,
                                      const AskedAdapters& adapters);

// How adapters begin that have no folder.
peft::AdapterStart start_of(const AskedAdapters& adapters, int64_t seed);
// The same of each of those that train together, and their folders.
std::vector<VariantStart> starts_of(const std::vector<AdapterInJob>& adapters);

// Returns true if the settings ask for adapters.
bool asks_for_adapters(const config::Config& config);
// Reads adapter_config.json where the settings name an adapter. Fails (78) where they contradict
// it. For one rank.
Expected<AskedAdapters> read_asked_adapters(const config::Settings& settings, const HubCache& hub);
// The same, read by rank 0. Collective over the world.
comm::Agreed<AskedAdapters> read_asked_adapters(const config::Settings& settings,
                                                const HubCache& hub, const comm::Group& world);

// For adapters that begin as a part of the weights (PiSSA, OLoRA): makes the initial adapter of a
// run, or reads that of the checkpoint it goes on from, and lets `model` take it out of its
// weights. Collective over the world.
std::optional<comm::AgreedFailure> take_out_initial_adapter(
    const config::Config& config, const AskedAdapters& adapters, const model::ModelSpec& spec,
    const checkpoint::Checkpoint* checkpoint, Pretrained& model, const comm::Group& world);
// The same of a checkpoint that is exported.
std::optional<comm::AgreedFailure> take_out_initial_adapter(
    const checkpoint::Checkpoint& checkpoint, const model::ModelSpec& spec, Pretrained& model,
    const comm::Group& world);

// Fails (78) where all weights would train of a model whose files hold codes.
std::optional<Failure> refuse_whole_training(const model::ModelSpec& spec,
                                             const config::Settings& settings);

// Gives the model the adapters that the settings ask for, or freezes what freeze and train_only
// name.
std::optional<Failure> choose_trained(model::ModelSpec& spec, const config::Settings& settings,
                                      AskedAdapters& adapters);

// The adapters that trained together in the run of a checkpoint, with adapter_config.json of each.
struct StoredVariants {
    std::vector<std::string> names;
    std::vector<peft::LoraConfig> configs;
    std::vector<std::string> texts;
};
// Returns them; none where a checkpoint has one adapter, or none.
Expected<StoredVariants> stored_variants_of(const checkpoint::Checkpoint& checkpoint);

// Returns the adapters that a checkpoint was made with, if any.
Expected<std::optional<peft::LoraConfig>> adapters_of(const checkpoint::Checkpoint& checkpoint);

}  // namespace ringshard::run
