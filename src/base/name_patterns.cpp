#include "ringshard/base/name_patterns.hpp"

#include <algorithm>

#include "python_regex.hpp"
#include "ringshard/base/regex.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard {

namespace {

size_t longest_common_part(const std::string& a, const std::string& b) {
    size_t longest = 0;
    std::vector<size_t> before(b.size() + 1);
    for (const char letter : a) {
        std::vector<size_t> here(b.size() + 1);
        for (size_t i = 0; i < b.size(); ++i) {
            here[i + 1] = b[i] == letter ? before[i] + 1 : 0;
            longest = std::max(longest, here[i + 1]);
        }
        before = std::move(here);
    }
    return longest;
}

Expected<CompiledRegex> compile(const std::string& expression, Fit fit) {
    const auto translated = from_python_regex(expression);
    if (!translated) return translated.failure();
    // As PEFT reads rank_pattern and alpha_pattern.
    const std::string& text = translated.value();
    constexpr uint32_t most_steps = 1'000'000;
    return CompiledRegex::compile(fit == Fit::end ? format_text("(.*\\.)?({})$", text) : text,
                                  {.steps = most_steps});
}

Expected<bool> matches(const CompiledRegex& regex, Fit fit, const std::string& name) {
    CompiledRegex::Search search(regex, name);
    if (fit != Fit::any_part) return search.matches_whole();
    const auto found = search.find(0);
    if (!found) return found.failure();
    return found.value().has_value();
}

}  // namespace

Expected<std::set<std::string>> names_that_match(const std::string& setting,
                                                 const std::string& expression, Fit fit,
                                                 const std::vector<std::string>& names) {
    const auto refuse = [&](const std::string& why) {
        return Failure{ExitCode::settings,
                       format_text("{} = {}: {}", setting, shown(expression), why)};
    };
    const auto regex = compile(expression, fit);
    if (!regex)
        return refuse(
            format_text("is no regular expression in the syntax of Python's re, as "
                        "model\\.layers\\.[0-3]\\.: {}",
                        regex.failure().message));
    std::set<std::string> found;
    for (const std::string& name : names) {
        const auto is_match = matches(regex.value(), fit, name);
        if (!is_match)
            return refuse(
                format_text("takes too many steps on the name {} ({}); write it without "
                            "a repetition within a repetition, as (a+)+",
                            name, is_match.failure().message));
        if (is_match.value()) found.insert(name);
    }
    return found;
}

std::string nearest_names(std::string expression, std::vector<std::string> names) {
    std::erase(expression, '\\');
    constexpr size_t most = 3;
    const size_t count = std::min(most, names.size());
    std::ranges::stable_sort(names, std::ranges::greater(), [&](const std::string& name) {
        return longest_common_part(expression, name);
    });
    names.resize(count);
    return join(names, ", ");
}

}  // namespace ringshard
