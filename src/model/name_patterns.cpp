#include "name_patterns.hpp"

#include <algorithm>

#include "ringshard/base/text.hpp"

namespace ringshard::model {

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

}  // namespace

std::optional<std::regex> read_regex(const std::string& text) {
    try {
        return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error&) {
        return std::nullopt;
    }
}

std::optional<std::regex> read_end_regex(const std::string& text) {
    return read_regex(format_text("(.*\\.)?({})", text));
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

}  // namespace ringshard::model
