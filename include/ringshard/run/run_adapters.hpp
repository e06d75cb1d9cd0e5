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

// An adapter as the settings ask for it, with the settings of a run of its own.
struct AskedAdapter {
    std::string name;  // of one of several that train together; empty: it is the only one
    config::Settings settings;
    peft::LoraConfig config{};
    std::filesystem::path folder{};  // of an adapter to go on from; empty: it begins anew
};
// At least one: a run without adapters has one that is not used.
using AskedAdapters = std::vector<AskedAdapter>;

inline bool are_several(const AskedAdapters& adapters) { return !adapters.front().name.empty(); }

// A learner of a run, with the settings of a run of its own. One without a name has those of the
// run.
struct LearnerInJob {
    std::string name;
    const config::Settings& settings;
};
// Returns the learners: each of several adapters, or the model. The arguments must outlive them.
std::vector<LearnerInJob> learners_of(const config::Settings& settings,
                                      const AskedAdapters& adapters);

// How the adapters begin.
std::vector<BegunAdapter> beginnings_of(const AskedAdapters& adapters);

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
    const config::Config& config, const peft::LoraConfig& adapter, const model::ModelSpec& spec,
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

// An adapter that a checkpoint was made with.
struct StoredAdapter {
    std::string name;  // of one of several; empty: it is the only one
    std::string text;  // of adapter_config.json
    peft::LoraConfig config;
};
// Returns them, of the texts of a checkpoint.
Expected<std::vector<StoredAdapter>> stored_adapters_of(
    const std::map<std::string, std::string>& texts, const std::string& checkpoint);
// Gives the model these adapters.
std::optional<Failure> add_stored_adapters(model::ModelSpec& spec,
                                           const std::vector<StoredAdapter>& adapters);

}  // namespace ringshard::run
