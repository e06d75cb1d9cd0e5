#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// The beginning of a text that a model continues.
struct Prompt {
    std::string text;  // with the chat template applied
    std::vector<int32_t> tokens;
};

// Reads prompts from a file, one per row: the column `prompt`, else `messages`, else `text`. The
// chat template turns a list of messages into text, including the generation prompt. Names unread
// columns in `warnings`.
Expected<std::vector<Prompt>> read_prompts(const std::filesystem::path& file,
                                           const TextTools& tools,
                                           std::vector<std::string>& warnings);

}  // namespace ringshard::data
