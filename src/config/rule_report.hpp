#pragma once

#include <set>
#include <string>
#include <vector>

#include "statement.hpp"

namespace ringshard::config {

// Reports settings that break a rule together. Skips rules that involve `broken` settings, which do
// not have the user's values.
class RuleReport {
public:
    RuleReport(Settings& settings, const std::set<std::string>& broken, Problems& problems)
        : settings_(settings), broken_(broken), problems_(problems) {}

    Settings& settings() { return settings_; }
    void complain(const std::vector<std::string>& names, const std::string& rule);

private:
    Settings& settings_;
    const std::set<std::string>& broken_;
    Problems& problems_;
};

// Checks the rules of adapters, and of weights in four bits below them.
void check_adapters(RuleReport& report);
// Checks the rules of pairs of answers.
void check_preferences(RuleReport& report);
// Checks the rules of documents that are scored whole.
void check_scores(RuleReport& report);

}  // namespace ringshard::config
