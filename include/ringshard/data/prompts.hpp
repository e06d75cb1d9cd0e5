#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// The beginning of a text, which a model goes on with.
struct Prompt {
    std::string text;  // as it is tokenized
    std::vector<int32_t> tokens;
};

// Reads the prompts of a file, a row each: the column `prompt`, else `messages`, else `text`. A
// list of messages becomes text by the chat template, with the words that begin an answer. Names
// the columns that it does not read in `warnings`.
Expected<std::vector<Prompt>> read_prompts(const std::filesystem::path& file,
                                           const TextTools& tools,
                                           std::vector<std::string>& warnings);

}  // namespace ringshard::data
