#pragma once

#include <string>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

struct TextPair {
    std::string prompt;
    std::string chosen;
    std::string rejected;
};

// Takes the prompt out of two answers that begin with it, where TRL does.
void take_prompt_out(TextPair& pair);
// The same of lists of messages. Returns the prompt.
text::Value take_prompt_out(text::Value& chosen, text::Value& rejected);

}  // namespace ringshard::data
