#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::text {

// Bytes [first, last) of the text from which a token comes, in whole characters. Tokens that a
// template adds have {0, 0}.
struct Span {
    uint32_t first = 0;
    uint32_t last = 0;
    bool operator==(const Span&) const = default;
};

// A token that the tokenizer matches in the text before any other step.
struct AddedToken {
    std::string content;
    bool single_word = false;  // only without a letter, digit or _ next to it
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // takes the white space after it
    bool normalized = true;    // matched in the normalized text
    bool special = false;      // decode() can skip it
    bool operator==(const AddedToken&) const = default;
};

enum class SpecialTokens { add, leave_out };
enum class Decoding { everything, skip_special_tokens };

// Converts text to tokens and back, by a Hugging Face tokenizer.json. Threads may share one; each
// encodes with its own Scratch.
class Tokenizer {
public:
    // Fails on every part that this class does not handle exactly like the `tokenizers` package,
    // and names it.
    static Expected<Tokenizer> from_file(const std::filesystem::path& tokenizer_json);
    // `replacement`: a JSON object whose parts override the file's.
    static Expected<Tokenizer> from_json(std::string_view json, const std::string& name,
                                         std::string_view replacement = "{}");

    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // The state of a thread: buffers, and a cache of words that lasts from text to text.
    class Scratch {
    public:
        explicit Scratch(const Tokenizer& tokenizer);
        Scratch(Scratch&&) noexcept;
        Scratch& operator=(Scratch&&) noexcept;
        ~Scratch();

        struct State;

    private:
        friend class Tokenizer;
        std::unique_ptr<State> state_;
    };

    // Appends the tokens of a text. A failure names the first byte that is not UTF-8.
    std::optional<Failure> encode(std::string_view text, SpecialTokens special, Scratch& scratch,
                                  std::vector<int32_t>& ids) const;
    // Also returns the span of each token. Slower: spans bypass the cache of words.
    std::optional<Failure> encode(std::string_view text, SpecialTokens special, Scratch& scratch,
                                  std::vector<int32_t>& ids, std::vector<Span>& spans) const;

    std::string decode(std::span<const int32_t> ids, Decoding decoding) const;

    std::optional<int32_t> id_of(std::string_view token) const;
    std::optional<std::string> token_of(int32_t id) const;
    int64_t vocab_size() const;  // including added tokens
    bool is_special(std::string_view token) const;

    // Gives the next free ids to tokens that are not in the vocabulary. Call before any encode().
    std::optional<Failure> add_tokens(std::span<const AddedToken> tokens);
    std::vector<std::pair<int32_t, AddedToken>> added_tokens() const;  // by id

    struct Parts;

private:
    explicit Tokenizer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ringshard::text
