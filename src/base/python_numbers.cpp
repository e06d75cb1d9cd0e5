#include "ringshard/base/python_numbers.hpp"

#include <algorithm>
#include <array>

namespace ringshard {

namespace {

constexpr std::array<std::string_view, 3> words{"NaN", "-Infinity", "Infinity"};

}  // namespace

std::string replace_python_numbers(std::string_view json,
                                   std::string (*replacement)(std::string_view word)) {
    std::string out;
    bool is_in_text = false;
    for (size_t at = 0; at < json.size();) {
        const std::string_view rest = json.substr(at);
        const auto* const word = std::ranges::find_if(
            words, [&](std::string_view each) { return !is_in_text && rest.starts_with(each); });
        if (word != words.end()) {
            out += replacement(*word);
            at += word->size();
            continue;
        }
        const bool is_escaped = is_in_text && json[at] == '\\' && rest.size() > 1;
        if (json[at] == '"') is_in_text = !is_in_text;
        out += rest.substr(0, is_escaped ? 2 : 1);
        at += is_escaped ? 2 : 1;
    }
    return out;
}

}  // namespace ringshard
