#include "ringshard/config/activation_policies.hpp"

#include <algorithm>

#include "enum_names.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

namespace {

const char* const automatic_name = "auto";

int64_t counted_blocks(const ActivationPolicies& policies) {
    int64_t blocks = 0;
    for (const ActivationPolicies::Run& run : policies.runs()) blocks += run.blocks.value_or(0);
    return blocks;
}

const char* const rule =
    "must be auto, or one of everything, all, all_but_gate_up, attention and input; or several of "
    "them for blocks in their order, each but the last with a number of blocks, as "
    "all:18,attention";

}  // namespace

bool ActivationPolicies::keeps_everything() const {
    return !is_automatic() && std::ranges::all_of(runs_, [](const Run& run) {
        return run.policy <= ActivationPolicy::all;
    });
}

std::string ActivationPolicies::why_not(int64_t num_blocks) const {
    if (is_automatic()) return {};
    const int64_t counted = counted_blocks(*this);
    if (counted > num_blocks)
        return format_text("names {} blocks, and the model has {}", counted, num_blocks);
    if (counted < num_blocks && runs_.back().blocks)
        return format_text(
            "names {} blocks, and the model has {}: leave the last number out, and the last policy "
            "is that of all others",
            counted, num_blocks);
    return {};
}

std::vector<ActivationPolicy> ActivationPolicies::of_blocks(int64_t num_blocks) const {
    RINGSHARD_CHECK(!is_automatic() && why_not(num_blocks).empty());
    std::vector<ActivationPolicy> policies;
    for (const Run& run : runs_) {
        const int64_t left = num_blocks - static_cast<int64_t>(policies.size());
        policies.insert(policies.end(), static_cast<size_t>(run.blocks.value_or(left)), run.policy);
    }
    return policies;
}

std::string to_text(const ActivationPolicies& policies) {
    if (policies.is_automatic()) return automatic_name;
    std::vector<std::string> parts;
    for (const auto& [policy, blocks] : policies.runs())
        parts.push_back(blocks ? format_text("{}:{}", write_value(policy), *blocks)
                               : write_value(policy));
    return join(parts, ",");
}

std::string describe(const ActivationPolicies& policies, int64_t num_blocks) {
    std::vector<std::string> parts;
    int64_t left = num_blocks;
    for (const auto& [policy, count] : policies.runs()) {
        const int64_t blocks = count.value_or(left);
        left -= blocks;
        const bool is_first = parts.empty();
        if (blocks > 0)
            parts.push_back(concat(blocks, is_first ? format_text(" of {} blocks", num_blocks) : "",
                                   blocks == 1 && !is_first ? " keeps " : " keep ",
                                   write_value(policy)));
    }
    return join(parts, ", ");
}

namespace {

// Parses one part of the text, "all:18"; returns nothing if it is malformed.
std::optional<ActivationPolicies::Run> read_run(std::string_view text) {
    const std::vector<std::string> words = split(text, ':');
    ActivationPolicies::Run run{};
    if (words.size() > 2 || read_value(std::string(trim(words.front())), run.policy))
        return std::nullopt;
    if (words.size() == 1) return run;
    run.blocks = read_whole_number(trim(words[1]));
    if (!run.blocks || *run.blocks <= 0) return std::nullopt;
    return run;
}

}  // namespace

Rule read_value(const std::string& text, ActivationPolicies& value) {
    if (lower_with_underscores(text) == automatic_name) {
        value = ActivationPolicies::automatic();
        return std::nullopt;
    }
    std::vector<ActivationPolicies::Run> runs;
    for (const std::string& part : split(text, ',')) {
        const auto run = read_run(part);
        if (!run || (!runs.empty() && !runs.back().blocks)) return rule;
        runs.push_back(*run);
    }
    if (runs.empty()) return rule;
    value = ActivationPolicies(std::move(runs));
    return std::nullopt;
}

std::string write_value(const ActivationPolicies& value) { return to_text(value); }

}  // namespace ringshard::config
