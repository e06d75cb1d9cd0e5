#pragma once

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

// Steps, lines of metrics and progress, checkpoints: until the last step, or until a signal or a
// file asks for an end. Collective over the world.
std::optional<comm::AgreedFailure> train_to_the_end(
    const config::Config& config, const comm::Group& world, Trainer& trainer,
    const checkpoint::Store& store, const shard::Zero& zero, optim::AdamW& optimizer,
    const checkpoint::Extras& extras, Faults& faults);

}  // namespace ringshard::train
