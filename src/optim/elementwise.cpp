#include "elementwise.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "ringshard/ops/updates.hpp"

namespace ringshard::optim {

namespace {

class Elementwise final : public Updater {
public:
    Elementwise(const UpdaterContext& context, RuleOfStep rule)
        : Updater(context), rule_(std::move(rule)) {}

private:
    void update(const Slice& slice, const StepSize& size) const override {
        ops::update({slice.weights, slice.states, slice.gradient, slice.rounded, slice.first_place,
                     size.number},
                    rule_(size));
    }

    RuleOfStep rule_;
};

// The states of a moment are its codes, and the maximum of each block.
class InEightBits final : public Updater {
public:
    InEightBits(const UpdaterContext& context, RuleOfStep rule, const std::vector<bool>& are_signed)
        : Updater(context), rule_(std::move(rule)) {
        for (const bool is_signed : are_signed)
            values_.push_back(ops::moment_values(is_signed, context.zero.device()));
    }

private:
    void update(const Slice& slice, const StepSize& size) const override {
        std::vector<ops::CodedMoment> moments;
        for (size_t moment = 0; moment < values_.size(); ++moment)
            moments.push_back(
                {slice.states[2 * moment], slice.states[2 * moment + 1], values_[moment]});
        ops::coded_update({slice.weights, moments, slice.gradient, slice.rounded}, rule_(size));
    }

    RuleOfStep rule_;
    std::vector<at::Tensor> values_;
};

// Whole blocks, large enough, and no table, as bitsandbytes chooses.
bool has_coded_moments(const shard::ParameterGroup& group) {
    constexpr int64_t least = 4096;
    return group.stand != shard::Stand::table &&
           std::ranges::all_of(group.tensors, [](const shard::TensorSpec& tensor) {
               const int64_t size = c10::multiply_integers(tensor.shape);
               return size >= least && size % ops::moment_block == 0;
           });
}

}  // namespace

OptimizerKind elementwise(const std::vector<std::string>& moments, RuleOfStep rule) {
    OptimizerKind kind;
    for (const std::string& moment : moments) kind.states.push_back({moment});
    kind.make = [rule](const UpdaterContext& context) -> std::unique_ptr<Updater> {
        return std::make_unique<Elementwise>(context, rule);
    };
    kind.rule = std::move(rule);
    return kind;
}

OptimizerKind in_eight_bits(const OptimizerKind& plain, const std::vector<bool>& are_signed,
                            config::Optimizer others) {
    OptimizerKind kind{.takes = &has_coded_moments, .others = others, .grain = ops::moment_block};
    for (const StateSpec& moment : plain.states) {
        kind.states.push_back({moment.name, at::kByte});
        kind.states.push_back({moment.name + "_max", at::kFloat, ops::moment_block});
    }
    kind.make = [rule = plain.rule,
                 are_signed](const UpdaterContext& context) -> std::unique_ptr<Updater> {
        return std::make_unique<InEightBits>(context, rule, are_signed);
    };
    return kind;
}

}  // namespace ringshard::optim
