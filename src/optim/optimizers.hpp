#pragma once

#include <memory>
#include <vector>

#include "ringshard/optim/optimizer.hpp"

// The kinds of optimizers: each is a file with a function that describes it. kinds.cpp lists them.
namespace ringshard::optim {

struct OptimizerKind {
    std::vector<StateSpec> states;  // fp32 ones lie in optimizer_state_dtype
    std::unique_ptr<Updater> (*make)(const UpdaterContext& context);
    // Which weights it updates; null: all. The optimizer `others` updates the rest.
    bool (*takes)(const shard::ParameterGroup& group) = nullptr;
    config::Optimizer others = config::Optimizer::adamw;
    // The weights that it takes, in words, if a run that has none of them does not use it.
    std::string needs{};
    int64_t grain = shard::Placement::least_grain;  // weights that share a number of its states
    bool keeps_masters = false;                     // Placement's
};

OptimizerKind kind_of(config::Optimizer optimizer, const config::TrainingSettings& settings);

OptimizerKind adafactor_kind();
OptimizerKind adamw_kind();
OptimizerKind adamw_8bit_kind();
OptimizerKind lion_kind();
OptimizerKind lion_8bit_kind();
OptimizerKind muon_kind();
OptimizerKind rmsprop_kind();
OptimizerKind schedule_free_adamw_kind();
OptimizerKind schedule_free_sgd_kind();
OptimizerKind sgd_kind(const config::TrainingSettings& settings);

// Whether the moments of a group lie in 8 bits: its matrices are of whole blocks, large enough, and
// no table, as bitsandbytes chooses.
bool has_coded_moments(const shard::ParameterGroup& group);

// Makes an updater of a class whose constructor takes the context.
template <class Kind>
std::unique_ptr<Updater> make_updater(const UpdaterContext& context) {
    return std::make_unique<Kind>(context);
}

}  // namespace ringshard::optim
