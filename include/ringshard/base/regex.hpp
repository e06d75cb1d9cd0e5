#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/expected.hpp"

namespace ringshard {

// A regular expression in PCRE2's syntax, for UTF-8. A search has a limit of steps and of memory:
// some expressions take a number of steps that is exponential in the length of the text. Threads
// may share one.
class CompiledRegex {
public:
    struct Options {
        bool has_machine_code = false;  // for many texts
        bool trusts_text = false;       // the texts are known to be UTF-8
        uint32_t steps = 10'000'000;
    };
    static Expected<CompiledRegex> compile(const std::string& pattern, const Options& options);

    struct Match {
        size_t begin = 0;
        size_t end = 0;
    };

    // The searches of one thread in one text.
    class Search {
    public:
        Search(const CompiledRegex& regex, std::string_view text);
        Search(const Search&) = delete;
        Search& operator=(const Search&) = delete;
        ~Search();

        // Returns the first match that begins at `from` or behind. Fails at a limit.
        Expected<std::optional<Match>> find(size_t from);
        // Returns true if the whole text is a match. Fails at a limit.
        Expected<bool> matches_whole();

    private:
        struct State;
        std::unique_ptr<State> state_;
    };

private:
    struct Code;
    std::shared_ptr<const Code> code_;
};

}  // namespace ringshard
