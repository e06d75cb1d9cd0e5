#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringshard::config {

// What a block keeps for its backward pass, from most to least.
enum class ActivationPolicy { all, all_but_gate_up, attention, input };

// The policy of every block: "attention", "all:18,attention" (the first 18 blocks keep all, the
// others attention), or "auto", which is replaced by one of these before the model is made.
class ActivationPolicies {
public:
    // Neighbouring blocks of one policy; without a count all blocks that are left.
    struct Run {
        ActivationPolicy policy;
        std::optional<int64_t> blocks{};
        bool operator==(const Run&) const = default;
    };

    ActivationPolicies(ActivationPolicy of_all_blocks = ActivationPolicy::all)
        : runs_{{of_all_blocks}} {}
    // A count is above 0, and only the last run may have none.
    explicit ActivationPolicies(std::vector<Run> runs) : runs_(std::move(runs)) {}
    static ActivationPolicies automatic() { return ActivationPolicies(std::vector<Run>()); }

    bool is_automatic() const { return runs_.empty(); }
    // True if no backward pass computes anything again.
    bool keeps_everything() const;
    const std::vector<Run>& runs() const { return runs_; }

    // Returns why a model of so many blocks cannot have these policies; empty if it can.
    std::string why_not(int64_t num_blocks) const;
    // The policy of each of so many blocks. The policies are not automatic and fit.
    std::vector<ActivationPolicy> of_blocks(int64_t num_blocks) const;

    bool operator==(const ActivationPolicies&) const = default;

private:
    std::vector<Run> runs_;
};

// As the setting is written.
std::string to_text(const ActivationPolicies& policies);
// For people: "18 of 24 blocks keep all, 6 keep attention".
std::string describe(const ActivationPolicies& policies, int64_t num_blocks);

}  // namespace ringshard::config
