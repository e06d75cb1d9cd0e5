#include "ringshard/model/update_rules.hpp"

#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::model {

namespace {

Failure refuse(const std::string& pattern, const std::string& reason) {
    return {ExitCode::settings, format_text("lr_groups: pattern {}: {}", pattern, reason)};
}

// The names of the trained tensors, by group.
std::vector<std::vector<std::string>> trained_groups(const ModelSpec& spec) {
    std::vector<std::vector<std::string>> groups;
    for (const shard::UnitLayout& module : modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups()) {
            if (!group.placement.is_trained) continue;
            std::vector<std::string>& names = groups.emplace_back();
            for (const shard::TensorSpec& tensor : group.tensors) names.push_back(tensor.name);
        }
    return groups;
}

}  // namespace

Expected<std::map<std::string, size_t>> find_update_rules(
    const ModelSpec& spec, const std::vector<std::string>& patterns) {
    std::map<std::string, size_t> rules;
    if (patterns.empty()) return rules;
    const std::vector<std::vector<std::string>> groups = trained_groups(spec);
    std::vector<std::string> names;
    for (const auto& group : groups) names.insert(names.end(), group.begin(), group.end());
    for (size_t number = 0; number < patterns.size(); ++number) {
        const auto found = names_that_match("lr_groups", patterns[number], Fit::any_part, names);
        if (!found) return found.failure();
        if (found.value().empty())
            return refuse(patterns[number],
                          format_text("matches no trained weight; the nearest are {}, and a dot is "
                                      "written \\.",
                                      nearest_names(patterns[number], names)));
        bool is_first_of_any = false;
        for (const std::string& name : found.value())
            is_first_of_any |= rules.emplace(name, number + 1).second;
        if (!is_first_of_any)
            return refuse(patterns[number],
                          "every weight that it matches has a rule before it in "
                          "the list; move it up, or take it out");
    }
    for (const auto& group : groups)
        for (const std::string& name : group)
            if (rules.contains(name) != rules.contains(group.front()) ||
                (rules.contains(name) && rules[name] != rules[group.front()]))
                return refuse(
                    patterns[(rules.contains(name) ? rules[name] : rules[group.front()]) - 1],
                    format_text("{} and {} would have different rules, and they are one matrix "
                                "product; name all of these or none: {}",
                                name, group.front(), join(group, ", ")));
    return rules;
}

}  // namespace ringshard::model
