#include "split_names.hpp"

#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace ringshard::data {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> words{{
    {"train", "train"},
    {"training", "train"},
    {"validation", "validation"},
    {"valid", "validation"},
    {"dev", "validation"},
    {"val", "validation"},
    {"test", "test"},
    {"testing", "test"},
    {"eval", "test"},
    {"evaluation", "test"},
}};

// Returns true if a name has the word between characters that are not letters.
bool has_word(std::string_view name, std::string_view word) {
    const auto is_letter = [&](size_t at) {
        return at < name.size() && std::isalpha(static_cast<unsigned char>(name[at])) != 0;
    };
    for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1))
        if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
    return false;
}

}  // namespace

std::optional<std::string> split_of(const std::filesystem::path& file) {
    const auto split_of_part = [](const std::string& part) -> std::optional<std::string> {
        for (const auto& [word, split] : words)
            if (has_word(part, word)) return std::string(split);
        return std::nullopt;
    };
    if (auto split = split_of_part(file.filename().string())) return split;
    for (const std::filesystem::path& folder : file.parent_path())
        if (auto split = split_of_part(folder.string())) return split;
    return std::nullopt;
}

}  // namespace ringshard::data
