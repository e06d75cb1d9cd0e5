#include "ringshard/model/freeze.hpp"

#include <algorithm>
#include <optional>

#include "ringshard/base/name_patterns.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/model_tensors.hpp"

namespace ringshard::model {

namespace {

Failure refuse_value(const std::string& setting, const std::string& value,
                     const std::string& reason) {
    return {ExitCode::settings, format_text("{} = {}: {}", setting, value, reason)};
}

Expected<std::set<std::string>> matches(const std::string& setting, const std::string& expression,
                                        const std::vector<std::string>& names) {
    auto found = names_that_match(setting, expression, Fit::any_part, names);
    if (found && found.value().empty())
        return refuse_value(
            setting, expression,
            format_text(
                "matches no tensor of the model; the nearest are {}, and a dot is written \\.",
                nearest_names(expression, names)));
    return found;
}

// Tensors of a group are one matrix, and so of one role.
std::optional<Failure> check_group(const std::vector<std::string>& group,
                                   const std::set<std::string>& frozen) {
    const auto is_frozen = [&](const std::string& name) { return frozen.contains(name); };
    const auto one = std::ranges::find_if(group, is_frozen);
    const auto other = std::ranges::find_if_not(group, is_frozen);
    if (one == group.end() || other == group.end()) return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("freeze, train_only: {} would be frozen and {} trained, and they "
                               "are one matrix product; freeze all of these or none: {}",
                               *one, *other, join(group, ", "))};
}

}  // namespace

Expected<std::set<std::string>> find_frozen(const ModelSpec& spec, const std::string& freeze,
                                            const std::string& train_only) {
    std::vector<std::vector<std::string>> groups;
    std::vector<std::string> names;
    for (const shard::UnitLayout& module : modules_of(spec))
        for (const shard::ParameterGroup& group : module.groups()) {
            std::vector<std::string>& of_group = groups.emplace_back();
            for (const shard::TensorSpec& tensor : group.tensors) of_group.push_back(tensor.name);
            names.insert(names.end(), of_group.begin(), of_group.end());
        }

    std::set<std::string> frozen = spec.never_trained();
    if (!train_only.empty()) {
        const auto trained = matches("train_only", train_only, names);
        if (!trained) return trained;
        for (const std::string& name : names)
            if (!trained.value().contains(name)) frozen.insert(name);
    }
    if (!freeze.empty()) {
        const auto found = matches("freeze", freeze, names);
        if (!found) return found;
        frozen.insert(found.value().begin(), found.value().end());
    }
    if (frozen.size() == names.size())
        return Failure{ExitCode::settings,
                       "freeze, train_only: every tensor of the model would be "
                       "frozen, and nothing is left to train"};
    for (const std::vector<std::string>& group : groups)
        if (auto failure = check_group(group, frozen)) return *failure;
    for (const std::string& name : frozen)
        if (spec.vocabulary > spec.stored_vocabulary && spec.has_row_for_each_token(name))
            return Failure{
                ExitCode::settings,
                format_text("freeze, train_only: {} would be frozen, and it has {} new rows for "
                            "tokens of the tokenizer (added_tokens, chat_template_path), which "
                            "would never be learned; train it, or add no tokens",
                            name, spec.vocabulary - spec.stored_vocabulary)};
    return frozen;
}

}  // namespace ringshard::model
