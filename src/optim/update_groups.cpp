#include "ringshard/optim/update_groups.hpp"

#include <algorithm>

#include "optimizers.hpp"

namespace ringshard::optim {

MatrixShape matrices_of(const shard::PlacedTensor& tensor) {
    const std::vector<int64_t>& shape = tensor.spec.shape;
    const int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    if (rows == 1) return {1, 1, tensor.size};
    return {tensor.size / (rows * shape.back()), rows, shape.back()};
}

std::vector<int64_t> StateSpec::shape_of(const shard::PlacedTensor& tensor) const {
    if (!is_factor()) return weights == 1 ? tensor.spec.shape : std::vector{tensor.size / weights};
    const MatrixShape matrices = matrices_of(tensor);
    const int64_t numbers = form == Form::rows ? matrices.rows : matrices.columns;
    return matrices.count == 1 ? std::vector{numbers} : std::vector{matrices.count, numbers};
}

std::vector<shard::TensorPiece> StateSpec::pieces(const shard::FlatUnit& unit,
                                                  const shard::Range& range) const {
    std::vector<shard::TensorPiece> pieces;
    if (!is_factor()) {
        pieces = unit.pieces({range.begin / weights * weights, range.end / weights * weights});
        for (shard::TensorPiece& piece : pieces)
            piece = {piece.tensor, piece.first / weights, piece.in_range / weights,
                     piece.size / weights};
        return pieces;
    }
    int64_t before = 0;
    for (const shard::TensorPiece& piece : unit.pieces(range)) {
        const MatrixShape matrices = matrices_of(*piece.tensor);
        const int64_t numbers = form == Form::rows ? matrices.rows : matrices.columns;
        const int64_t first = piece.first / matrices.size() * numbers;
        const int64_t size = piece.size / matrices.size() * numbers;
        pieces.push_back({piece.tensor, first, before, size});
        before += size;
    }
    return pieces;
}

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
    const OptimizerKind chosen = kind_of(optimizer, settings_);
    return {static_cast<size_t>(place - optimizers_.begin()), chosen.grain, chosen.keeps_masters};
}

std::vector<StateSpec> UpdateGroups::states_of(size_t updater) const {
    std::vector<StateSpec> states = kind_of(optimizers_.at(updater), settings_).states;
    const bool is_bf16 = settings_.optimizer_state_dtype == config::NumberType::bf16;
    for (StateSpec& state : states)
        if (is_bf16 && state.type == at::kFloat && state.weights == 1 && !state.is_factor())
            state.type = at::kBFloat16;
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
        if (!state.is_factor())
            bytes += static_cast<double>(c10::elementSize(state.type)) /
                     static_cast<double>(state.weights);
    return static_cast<int64_t>(bytes);
}

int64_t update_bytes(const config::TrainingSettings& settings) {
    constexpr int64_t fp32 = 4;
    return 2 * (fp32 + state_bytes(settings)) + fp32;
}

}  // namespace ringshard::optim
