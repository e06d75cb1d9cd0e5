#include "ringshard/plan/kept_activations.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "ringshard/base/narrow.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/plan/room.hpp"

namespace ringshard::plan {

namespace {

using config::ActivationPolicies;
using config::ActivationPolicy;
using Runs = std::vector<ActivationPolicies::Run>;

constexpr std::array from_most_to_least{ActivationPolicy::all, ActivationPolicy::all_but_gate_up,
                                        ActivationPolicy::attention, ActivationPolicy::input};

// Plans of one step with other policies.
class Search {
public:
    Search(const Question& question, const Device& device, int num_threads)
        : question_(question),
          device_(device),
          num_threads_(num_threads),
          num_blocks_(narrow<int64_t>(question.spec.blocks.size())) {}

    KeptActivations find() {
        Runs runs;
        for (const ActivationPolicy policy : from_most_to_least) {
            runs = {{policy}};
            if (fits(runs)) break;
        }
        const ActivationPolicy of_others = runs.back().policy;
        if (of_others == ActivationPolicy::all && gains_from_kept_rows())
            give_to_most(ActivationPolicy::everything, runs);
        for (const ActivationPolicy policy : from_most_to_least) {
            if (policy == of_others || !fits(runs)) break;
            give_to_most(policy, runs);
        }
        const StepPlan plan = plan_of(runs);
        return {ActivationPolicies(runs), plan, narrow<int>(ssize(plans_))};
    }

private:
    // A GPU makes rows again as fast as its memory reads them: to keep them saves a part of that,
    // unless they leave the GPU meanwhile.
    bool gains_from_kept_rows() const {
        return !device_.is_host && !question_.config.training.activation_offloading;
    }

    const StepPlan& plan_of(const Runs& runs) {
        const ActivationPolicies policies(runs);
        const auto [place, is_new] = plans_.try_emplace(to_text(policies));
        if (!is_new) return place->second;
        config::Config config = question_.config;
        config.training.activation_policy = policies;
        return place->second = plan_step(question_.with(config), num_threads_);
    }

    // Bytes that are left; below 0 where it does not fit.
    double left_with(const Runs& runs) {
        return usable_share * device_.memory_bytes -
               static_cast<double>(held_bytes(plan_of(runs), device_));
    }
    bool fits(const Runs& runs) { return left_with(runs) >= 0; }

    // Gives the policy to as many of the uncounted blocks as fit. The memory that is left is nearly
    // linear in their number, so a line through two numbers says which one to try next.
    void give_to_most(ActivationPolicy policy, Runs& runs) {
        int64_t blocks = num_blocks_;
        for (const auto& run : runs) blocks -= run.blocks.value_or(0);
        const auto with = [&](int64_t count) {
            Runs more = runs;
            if (count == blocks)
                more.back().policy = policy;
            else if (count > 0)
                more.insert(more.end() - 1, {policy, count});
            return more;
        };
        int64_t good = 0;
        int64_t bad = blocks;
        if (fits(with(bad))) good = bad;
        for (int tries = 0; bad - good > 1; ++tries) {
            constexpr int most_lines = 3;  // then it is no line, and halves are surer
            const double left = left_with(with(good));
            const double share = tries < most_lines ? left / (left - left_with(with(bad))) : 0.5;
            const auto step = static_cast<int64_t>(share * static_cast<double>(bad - good));
            const int64_t next = std::clamp(good + step, good + 1, bad - 1);
            (fits(with(next)) ? good : bad) = next;
        }
        runs = with(good);
    }

    const Question& question_;
    const Device& device_;
    int num_threads_;
    int64_t num_blocks_;
    std::map<std::string, StepPlan> plans_;  // by the text of the policies
};

}  // namespace

KeptActivations keep_what_fits(const Question& question, const Device& device, int num_threads) {
    return Search(question, device, num_threads).find();
}

}  // namespace ringshard::plan
