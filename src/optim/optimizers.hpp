#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringshard/optim/optimizer.hpp"

// The kinds of optimizers: each is a file of kinds/.
namespace ringshard::optim {

// The rule of a step, of optimizers that update each weight by itself.
using RuleOfStep = std::function<ops::UpdateRule(const StepSize& size)>;

struct OptimizerKind {
    std::vector<StateSpec> states{};  // fp32 ones lie in optimizer_state_dtype
    std::function<std::unique_ptr<Updater>(const UpdaterContext& context)> make{};
    RuleOfStep rule{};  // empty: it has none
    // Which weights it updates; null: all. The optimizer `others` updates the rest.
    bool (*takes)(const shard::ParameterGroup& group) = nullptr;
    config::Optimizer others = config::Optimizer::adamw;
    // The weights that it takes, in words, if a run that has none of them does not use it.
    std::string needs{};
    int64_t grain = shard::Placement::least_grain;  // weights that share a number of its states
    bool keeps_masters = false;                     // Placement's
};

OptimizerKind kind_of(config::Optimizer optimizer, const config::TrainingSettings& settings);

// Makes an updater of a class whose constructor takes the context.
template <class Kind>
std::unique_ptr<Updater> make_updater(const UpdaterContext& context) {
    return std::make_unique<Kind>(context);
}

}  // namespace ringshard::optim
