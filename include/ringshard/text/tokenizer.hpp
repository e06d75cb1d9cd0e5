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

// Bytes [first, last) of the text that a token comes from: whole characters. Tokens that a template
// adds come from nowhere: {0, 0}.
struct Span {
    uint32_t first = 0;
    uint32_t last = 0;
    bool operator==(const Span&) const = default;
};

// A token that is matched in the text before any other step.
struct AddedToken {
    std::string content;
    bool single_word = false;  // only where no letter, digit or _ stands beside it
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // and behind it
    bool normalized = true;    // looked for in the normalized text
    bool special = false;      // left out by decode() if asked for
    bool operator==(const AddedToken&) const = default;
};

enum class SpecialTokens { add, leave_out };
enum class Decoding { everything, skip_special_tokens };

// Text to tokens and back, as a Hugging Face tokenizer.json says. Threads may share one; each of
// them encodes with a Scratch of its own.
class Tokenizer {
public:
    // Refuses, by name, every part that this class does not handle exactly as the `tokenizers`
    // package.
    static Expected<Tokenizer> from_file(const std::filesystem::path& tokenizer_json);
    // `replacement`: a JSON object whose parts stand instead of the file's.
    static Expected<Tokenizer> from_json(std::string_view json, const std::string& name,
                                         std::string_view replacement = "{}");

    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // The state of a thread from text to text: buffers, and a cache of words.
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

    // Appends the tokens of a text. A failure says where the text is not UTF-8.
    std::optional<Failure> encode(std::string_view text, SpecialTokens special, Scratch& scratch,
                                  std::vector<int32_t>& ids) const;
    // The same with the span of each token. Slower: where a span is wanted, words are not looked up
    // in the scratch.
    std::optional<Failure> encode(std::string_view text, SpecialTokens special, Scratch& scratch,
                                  std::vector<int32_t>& ids, std::vector<Span>& spans) const;

    std::string decode(std::span<const int32_t> ids, Decoding decoding) const;

    std::optional<int32_t> id_of(std::string_view token) const;
    std::optional<std::string> token_of(int32_t id) const;
    int64_t vocab_size() const;  // added tokens included
    bool is_special(std::string_view token) const;

    // Added tokens that are not in the vocabulary get the next free ids. Only before anybody
    // encodes.
    std::optional<Failure> add_tokens(std::span<const AddedToken> tokens);
    std::vector<std::pair<int32_t, AddedToken>> added_tokens() const;  // by id

    struct Parts;

private:
    explicit Tokenizer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ringshard::text
