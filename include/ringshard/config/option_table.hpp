#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ringshard/config/option.hpp"

namespace ringshard::config {

// All known settings, in display order.
class OptionTable {
public:
    OptionTable();

    const Option* find(std::string_view name) const;
    const Alias* find_alias(std::string_view name) const;
    const Block* find_block(std::string_view name) const;
    const RefusedFamily* find_refused_family(std::string_view name) const;

    const std::deque<Option>& options() const { return options_; }
    const std::deque<Alias>& aliases() const { return aliases_; }
    const std::deque<Block>& blocks() const { return blocks_; }
    std::vector<std::string> groups() const;     // in the order of their first option
    std::vector<std::string> all_names() const;  // settings, aliases and blocks

    Option& add(Option option);
    void add(Alias alias);
    Block& add(Block block);
    void add(RefusedFamily family) { refused_families_.push_back(std::move(family)); }

private:
    // Deques: pointers that add() returns and the maps hold must stay valid.
    std::deque<Option> options_;
    std::deque<Alias> aliases_;
    std::deque<Block> blocks_;
    std::vector<RefusedFamily> refused_families_;
    std::unordered_map<std::string, const Option*> option_by_name_;
    std::unordered_map<std::string, const Alias*> alias_by_name_;
    std::unordered_map<std::string, const Block*> block_by_name_;
};

}  // namespace ringshard::config
