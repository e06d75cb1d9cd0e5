#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "json_reader.hpp"
#include "passage.hpp"
#include "regex.hpp"
#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

// The pattern of a Split or a Replace.
class Matcher {
public:
    virtual ~Matcher() = default;
    // Appends the matches from left to right, without overlap.
    virtual void find(std::string_view text, std::vector<Cut>& matches) const = 0;
};

// Parses {"String": " "} or {"Regex": "\\s+"}.
std::unique_ptr<Matcher> read_pattern(const Json& pattern);

// Matches single characters with one of these bits.
std::unique_ptr<Matcher> characters(uint8_t bits);
std::unique_ptr<Matcher> literal(std::string text);
// Matches \w+|[^\w\s]+.
std::unique_ptr<Matcher> words_and_signs();

}  // namespace ringshard::text
