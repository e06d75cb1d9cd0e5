#include "ringshard/config/option_table.hpp"

#include <algorithm>

#include "option_group.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::config {

OptionTable::OptionTable() {
    add_model_options(*this);
    add_adapter_options(*this);
    add_quantization_options(*this);
    add_data_options(*this);
    add_training_options(*this);
    add_preference_options(*this);
    add_score_options(*this);
    add_precision_options(*this);
    add_parallel_options(*this);
    add_fsdp_options(*this);
    add_deepspeed_options(*this);
    add_evaluation_options(*this);
    add_checkpoint_options(*this);
    add_logging_options(*this);
    add_run_options(*this);
    add_launcher_options(*this);
    add_refused_options(*this);
    for (const Alias& alias : aliases_)
        RINGSHARD_CHECK(find(alias.target) != nullptr, "{} names {}", alias.name, alias.target);
}

namespace {

template <class Entry>
const Entry* look_up(const std::unordered_map<std::string, const Entry*>& by_name,
                     std::string_view name) {
    const auto found = by_name.find(std::string(name));
    return found == by_name.end() ? nullptr : found->second;
}

}  // namespace

const Option* OptionTable::find(std::string_view name) const {
    return look_up(option_by_name_, name);
}
const Alias* OptionTable::find_alias(std::string_view name) const {
    return look_up(alias_by_name_, name);
}
const Block* OptionTable::find_block(std::string_view name) const {
    return look_up(block_by_name_, name);
}

const RefusedFamily* OptionTable::find_refused_family(std::string_view name) const {
    for (const RefusedFamily& family : refused_families_)
        if (name.substr(0, family.prefix.size()) == family.prefix) return &family;
    return nullptr;
}

Option& OptionTable::add(Option option) {
    options_.push_back(std::move(option));
    Option& added = options_.back();
    RINGSHARD_CHECK(option_by_name_.emplace(added.name, &added).second, "{} stands twice",
                    added.name);
    return added;
}

void OptionTable::add(Alias alias) {
    aliases_.push_back(std::move(alias));
    const Alias& added = aliases_.back();
    RINGSHARD_CHECK(alias_by_name_.emplace(added.name, &added).second, "{} stands twice",
                    added.name);
}

Block& OptionTable::add(Block block) {
    blocks_.push_back(std::move(block));
    Block& added = blocks_.back();
    RINGSHARD_CHECK(block_by_name_.emplace(added.name, &added).second, "{} stands twice",
                    added.name);
    return added;
}

std::vector<std::string> OptionTable::groups() const {
    std::vector<std::string> names;
    for (const Option& option : options_)
        if (std::find(names.begin(), names.end(), option.group) == names.end())
            names.push_back(option.group);
    return names;
}

std::vector<std::string> OptionTable::all_names() const {
    std::vector<std::string> names;
    for (const Option& option : options_) names.push_back(option.name);
    for (const Alias& alias : aliases_) names.push_back(alias.name);
    for (const Block& block : blocks_) names.push_back(block.name);
    return names;
}

}  // namespace ringshard::config
