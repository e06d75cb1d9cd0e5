#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passage.hpp"
#include "ringshard/base/regex.hpp"

namespace ringshard::text {

// A regular expression of a tokenizer.json: written for Oniguruma, run by PCRE2. compile() fails on
// constructs that the two interpret differently.
class Regex {
public:
    static Expected<Regex> compile(const std::string& pattern);

    // Appends the matches from left to right. Throws if the pattern takes too long on this text.
    void find(std::string_view text, std::vector<Cut>& matches) const;

private:
    Regex(std::string pattern, CompiledRegex compiled)
        : pattern_(std::move(pattern)), compiled_(std::move(compiled)) {}
    std::string pattern_;
    CompiledRegex compiled_;
};

// Translates a pattern to PCRE2, with character classes expanded to the ranges of the `tokenizers`
// package.
Expected<std::string> to_pcre2(std::string_view pattern);

}  // namespace ringshard::text
