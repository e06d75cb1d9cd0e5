#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

// What a checkpoint holds beside the state.
struct CheckpointExtras {
    std::vector<std::filesystem::path> files;
    std::map<std::string, std::string> texts;
};

// Steps, lines of metrics and progress, checkpoints: until the last step. Collective over the
// world.
std::optional<Failure> train_to_the_end(const config::Config& config, const comm::Group& world,
                                        Trainer& trainer, const checkpoint::Store& store,
                                        const shard::Zero& zero, optim::AdamW& optimizer,
                                        const CheckpointExtras& extras, Faults& faults);

}  // namespace ringshard::train
