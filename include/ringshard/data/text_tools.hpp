#pragma once

#include "ringshard/data/format.hpp"
#include "ringshard/text/chat_template.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

namespace ringshard::data {

// A model's tokenizer, special tokens and chat template.
class TextTools {
public:
    // If tokens are added to a model, its embedding gets a multiple of so many rows, as in TRL.
    static constexpr int64_t vocabulary_multiple = 64;

    enum class Template { not_needed, if_there, needed };
    static Expected<TextTools> load(const FormatSettings& settings, Template use);

    const text::Tokenizer& tokenizer() const { return folder_.tokenizer; }
    const std::string& system_prompt() const { return system_prompt_; }
    const std::string& eos() const { return eos_; }  // as text; empty if the tokenizer has none

    // The token that fills rows up: the tokenizer's, or else the EOS token.
    std::optional<int32_t> padding_token() const;

    // Replacements of, and additions to, the model's own tokenizer settings.
    struct Adopted {
        std::optional<std::string> chat_template;
        // Tokens that the model's tokenizer lacks, with ascending ids.
        std::vector<std::pair<int32_t, text::AddedToken>> tokens;
        // Embedding rows, one per token; set if the template comes from another tokenizer.
        std::optional<int64_t> vocabulary;
        struct Token {
            std::string text;
            int64_t id;
            bool is_of_template;  // from another model's template, as the only EOS token
        };
        std::optional<Token> eos;
    };
    const Adopted& adopted() const { return adopted_; }

    struct Chat {
        text::Value messages{};  // a list of objects
        text::Value tools{};     // a list or null
        // An object or null: more variables for the template, and its documents.
        text::Value variables{};
        bool adds_generation_prompt = false;
        std::string continued_field{};  // field of the last message that the rendering ends with
        // Parts of the content of a message that have no targets.
        struct Unlearned {
            size_t message;
            text::ByteRange bytes;
        };
        std::vector<Unlearned> unlearned{};

        // Reads and validates columns of a row: tools may be JSON in a text.
        static Expected<Chat> read(text::Value messages, text::Value tools, text::Value variables);
    };
    // Renders the chat. Finds the assistant's messages by the template's generation blocks, else by
    // the text that each of them adds to the rendering.
    Expected<text::Rendered> render(const Chat& chat, bool finds_assistant) const;
    // Returns where the rendering holds the content of each wanted message; empty ranges for the
    // others.
    Expected<std::vector<text::ByteRange>> find_messages(const Chat& chat,
                                                         std::string_view rendered,
                                                         const std::vector<bool>& is_wanted) const;
    // From now on renders with the training template of the chat template, if that marks no answers
    // and is one that a model family ships.
    void use_training_template();
    // Returns the family of the training template in use; empty: the chat template itself is used.
    const std::string& training_family() const { return training_family_; }
    bool has_chat_template() const { return !templates_.empty(); }
    // Returns true if the chat template names this message key, or iterates over all keys.
    bool template_reads(const std::string& key) const;
    bool marks_assistant() const {
        return !templates_.empty() && templates_.front().marks_assistant();
    }

private:
    struct Conversation;
    Expected<Conversation> conversation_of(const Chat& chat) const;
    explicit TextTools(text::TokenizerFolder folder) : folder_(std::move(folder)) {}
    std::optional<Failure> take_template(const FormatSettings& settings);
    Expected<std::vector<std::string>> template_of_other(const FormatSettings& settings);
    std::optional<Failure> add_tokens(std::vector<text::AddedToken> tokens);
    std::optional<Failure> fill_vocabulary();
    std::optional<Failure> take_eos(const std::string& token, const std::string& setting);

    text::TokenizerFolder folder_;
    std::string eos_;
    std::string system_prompt_;
    Adopted adopted_;
    std::vector<text::ChatTemplate> templates_;  // without tools, and with tools if that differs
    std::string training_family_;
    text::Value::Object variables_;  // special tokens
};

// Returns true if chat_template_path names a template, false if it names a model with one.
bool is_template_file(const std::filesystem::path& path);

// Returns a mask of the tokens in the ranges: from the token with the first character of a range to
// the one with its last, as transformers counts.
std::vector<bool> tokens_in(std::span<const text::ByteRange> ranges,
                            std::span<const text::Span> tokens);

}  // namespace ringshard::data
