#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::config {

// The tensors that a block saves for its backward pass, from most to least.
enum class ActivationPolicy { everything, all, all_but_gate_up, attention, input };

// The policy of every block: "attention", "all:18,attention" (the first 18 blocks save all, the
// others attention), or "auto", which the program resolves before it makes the model.
class ActivationPolicies {
public:
    // Consecutive blocks of one policy; without a count, all remaining blocks.
    struct Run {
        ActivationPolicy policy;
        std::optional<int64_t> blocks{};
        bool operator==(const Run&) const = default;
    };

    ActivationPolicies(ActivationPolicy of_all_blocks = ActivationPolicy::all)
        : runs_{{of_all_blocks}} {}
    // Requires counts above 0; only the last run may lack a count.
    explicit ActivationPolicies(std::vector<Run> runs) : runs_(std::move(runs)) {}
    static ActivationPolicies automatic() { return ActivationPolicies(std::vector<Run>()); }

    bool is_automatic() const { return runs_.empty(); }
    // Returns true if no backward pass recomputes a product of matrices or attention.
    bool keeps_everything() const;
    const std::vector<Run>& runs() const { return runs_; }

    // Returns why a model of num_blocks blocks cannot have these policies; empty if it can.
    std::string why_not(int64_t num_blocks) const;
    // Returns the policy of each block. Requires policies that are not automatic and fit
    // num_blocks.
    std::vector<ActivationPolicy> of_blocks(int64_t num_blocks) const;

    bool operator==(const ActivationPolicies&) const = default;

private:
    std::vector<Run> runs_;
};

// Formats the policies as the setting's value.
std::string to_text(const ActivationPolicies& policies);
// Describes the policies for users: "18 of 24 blocks keep all, 6 keep attention".
std::string describe(const ActivationPolicies& policies, int64_t num_blocks);

}  // namespace ringshard::config
