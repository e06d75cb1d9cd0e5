#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "passage.hpp"
#include "ringshard/base/expected.hpp"

namespace ringshard::text {

// A regular expression of a tokenizer.json: written for Oniguruma, run by PCRE2. Compiling refuses
// what the two would read differently.
class Regex {
public:
    static Expected<Regex> compile(const std::string& pattern);

    // Appends the matches, from left to right. A failure: the pattern takes too long on this text.
    void find(std::string_view text, std::vector<Cut>& matches) const;

private:
    struct Code;
    std::shared_ptr<const Code> code_;
};

// The same pattern in PCRE2's words, with classes of characters spelt out as the originals have
// them.
Expected<std::string> to_pcre2(std::string_view pattern);

}  // namespace ringshard::text
