#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "passage.hpp"

namespace ringshard::text {

// Hand-written equivalents of the regular expressions with which most tokenizers split. Each splits
// a whole text into its matches: these patterns match every character.
enum class Scanner {
    gpt2,
    one_digit,     // Qwen2: \p{N}
    three_digits,  // Llama-3: \p{N}{1,3}
};

std::string_view pattern_of(Scanner scanner);
std::optional<Scanner> scanner_for(std::string_view pattern);
void scan(Scanner scanner, std::string_view text, uint32_t offset, std::vector<Cut>& pieces);

}  // namespace ringshard::text
