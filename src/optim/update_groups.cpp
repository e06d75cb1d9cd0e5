#include "ringshard/optim/update_groups.hpp"

#include <algorithm>

#include "optimizers.hpp"

namespace ringshard::optim {

UpdateGroups::UpdateGroups(const config::TrainingSettings& settings)
    : settings_(settings), rules_(config::read_lr_groups(settings).value()) {
    std::vector<config::Optimizer> named{settings.optim};
    for (const config::UpdateRule& rule : rules_)
        if (rule.optim) named.push_back(*rule.optim);
    for (const config::Optimizer optimizer : named) {
        add(optimizer);
        const OptimizerKind kind = kind_of(optimizer, settings);
        if (kind.takes != nullptr) add(kind.others);
    }
}

void UpdateGroups::add(config::Optimizer optimizer) {
    if (std::ranges::find(optimizers_, optimizer) == optimizers_.end())
        optimizers_.push_back(optimizer);
}

size_t UpdateGroups::rule_of(const shard::ParameterGroup& group) const {
    return group.rule > 0 && rules_.at(group.rule - 1).optim ? group.rule : 0;
}

config::Optimizer UpdateGroups::optimizer_of(size_t rule) const {
    return rule == 0 ? settings_.optim : rules_.at(rule - 1).optim.value_or(settings_.optim);
}

std::optional<UpdateGroups::Unused> UpdateGroups::find_unused(
    const std::vector<shard::ParameterGroup>& trained) const {
    for (size_t rule = 0; rule <= rules_.size(); ++rule) {
        if (rule > 0 && !rules_[rule - 1].optim) continue;
        const OptimizerKind kind = kind_of(optimizer_of(rule), settings_);
        if (kind.needs.empty()) continue;
        if (std::ranges::none_of(trained, [&](const shard::ParameterGroup& group) {
                return rule_of(group) == rule && kind.takes(group);
            }))
            return Unused{rule, kind.needs};
    }
    return std::nullopt;
}

shard::UpdateChoice UpdateGroups::choose(const shard::ParameterGroup& group) const {
    config::Optimizer optimizer = optimizer_of(rule_of(group));
    const OptimizerKind kind = kind_of(optimizer, settings_);
    if (kind.takes != nullptr && !kind.takes(group)) optimizer = kind.others;
    const auto place = std::ranges::find(optimizers_, optimizer);
    return {static_cast<size_t>(place - optimizers_.begin()), kind_of(optimizer, settings_).grain};
}

std::vector<StateSpec> UpdateGroups::states_of(size_t updater) const {
    std::vector<StateSpec> states = kind_of(optimizers_.at(updater), settings_).states;
    const bool is_bf16 = settings_.optimizer_state_dtype == config::NumberType::bf16;
    for (StateSpec& state : states)
        if (is_bf16 && state.type == at::kFloat && state.weights == 1) state.type = at::kBFloat16;
    return states;
}

shard::ChooseUpdate chooser_of(const config::TrainingSettings& settings) {
    return [groups = UpdateGroups(settings)](const shard::ParameterGroup& group) {
        return groups.choose(group);
    };
}

int64_t state_bytes(const config::TrainingSettings& settings) {
    double bytes = 0;
    for (const StateSpec& state : UpdateGroups(settings).states_of(0))
        bytes +=
            static_cast<double>(c10::elementSize(state.type)) / static_cast<double>(state.weights);
    return static_cast<int64_t>(bytes);
}

int64_t update_bytes(const config::TrainingSettings& settings) {
    constexpr int64_t fp32 = 4;
    return 2 * (fp32 + state_bytes(settings)) + fp32;
}

}  // namespace ringshard::optim
