#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "json_reader.hpp"
#include "passage.hpp"
#include "regex.hpp"
#include "unicode.hpp"

namespace ringshard::text {

// Something that is looked for in a text: the pattern of a Split or a Replace.
class Matcher {
public:
    virtual ~Matcher() = default;
    // Appends the matches, from left to right, without overlap.
    virtual void find(std::string_view text, std::vector<Cut>& matches) const = 0;
};

// {"String": " "} or {"Regex": "\\s+"}.
std::unique_ptr<Matcher> read_pattern(const Json& pattern);

// Single characters that have one of these bits.
std::unique_ptr<Matcher> characters(uint8_t bits);
std::unique_ptr<Matcher> literal(std::string text);
// \w+|[^\w\s]+
std::unique_ptr<Matcher> words_and_signs();

}  // namespace ringshard::text
