#pragma once

#include "ringshard/optim/optimizer.hpp"

// The kinds of optimizers: each is a file with a function that makes it and the names of its
// states. optimizer.cpp lists them.
namespace ringshard::optim {

std::unique_ptr<Optimizer> make_adamw(const shard::Zero& zero,
                                      const config::TrainingSettings& settings,
                                      offload::OffloadStore* offload_store);
std::vector<std::string> adamw_state_names();

std::unique_ptr<Optimizer> make_lion(const shard::Zero& zero,
                                     const config::TrainingSettings& settings,
                                     offload::OffloadStore* offload_store);
std::vector<std::string> lion_state_names();

}  // namespace ringshard::optim
