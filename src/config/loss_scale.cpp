#include "ringshard/config/loss_scale.hpp"

#include <algorithm>
#include <array>

#include "ringshard/base/text.hpp"

namespace ringshard::config {

LossScaleWords read_loss_scale(const std::string& setting) {
    static constexpr std::array bases{"default", "last_round", "all"};
    static constexpr std::array rules{
        "ignore_empty_think", "ignore_think_prefix", "hermes", "react", "qwen", "alpha_umi"};
    LossScaleWords words{.base = "default", .rules = {}, .wrong = {}};
    if (setting.empty()) return words;
    size_t begin = 0;
    for (bool is_first = true; begin <= setting.size(); is_first = false) {
        const size_t end = std::min(setting.find('+', begin), setting.size());
        const std::string word(trim(std::string_view(setting).substr(begin, end - begin)));
        begin = end + 1;
        if (is_first && std::ranges::find(bases, word) != bases.end())
            words.base = word;
        else if (std::ranges::find(rules, word) != rules.end())
            words.rules.push_back(word);
        else if (word != "base" && words.wrong.empty())
            words.wrong = word.empty() ? "+" : word;
    }
    return words;
}

std::vector<std::string> loss_scale_rules(const std::string& setting) {
    return read_loss_scale(setting).rules;
}

}  // namespace ringshard::config
