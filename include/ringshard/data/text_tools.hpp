#pragma once

#include "ringshard/data/format.hpp"
#include "ringshard/text/chat_template.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

namespace ringshard::data {

// The tokenizer of a model, its special tokens and its chat template.
class TextTools {
public:
    // The embedding of a model to which tokens are added has a multiple of so many rows, as in TRL.
    static constexpr int64_t vocabulary_multiple = 64;

    enum class Template { not_needed, if_there, needed };
    static Expected<TextTools> load(const FormatSettings& settings, Template use);

    const text::Tokenizer& tokenizer() const { return folder_.tokenizer; }
    const std::string& eos() const { return eos_; }  // as text; empty if the tokenizer has none

    // The settings that replace parts of the model's own, or add to them.
    struct Adopted {
        std::optional<std::string> chat_template;
        // Tokens that the model's tokenizer lacked, with ascending ids.
        std::vector<std::pair<int32_t, text::AddedToken>> tokens;
        // Rows of the embedding, one for each token: where another tokenizer's template was taken.
        std::optional<int64_t> vocabulary;
        struct Token {
            std::string text;
            int64_t id;
            bool is_of_template;  // it came with another model's template, and is the only one
        };
        std::optional<Token> eos;
    };
    const Adopted& adopted() const { return adopted_; }

    struct Chat {
        text::Value messages{};   // a list of objects
        text::Value tools{};      // a list or null
        text::Value variables{};  // an object or null: more variables for the template
        bool adds_generation_prompt = false;
        std::string continued_field{};  // of the last message, which the rendering ends with

        // As rows have them, and checked: tools may be JSON in a text.
        static Expected<Chat> read(text::Value messages, text::Value tools, text::Value variables);
    };
    // The assistant's messages are found by the template's generation blocks; if it has none, they
    // are what each of the assistant's messages adds to the rendering.
    Expected<text::Rendered> render(const Chat& chat, bool finds_assistant) const;
    // Where the words of each wanted message are in the rendering; empty ranges of the others.
    Expected<std::vector<text::ByteRange>> find_messages(const Chat& chat,
                                                         std::string_view rendered,
                                                         const std::vector<bool>& is_wanted) const;
    bool has_chat_template() const { return !templates_.empty(); }
    // Whether the chat template names a key of messages, or goes over all keys.
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
    Adopted adopted_;
    std::vector<text::ChatTemplate> templates_;  // without tools, and with tools if it is another
    text::Value::Object variables_;              // special tokens
};

// Whether chat_template_path names a template, and not a model whose template is to be taken.
bool is_template_file(const std::filesystem::path& path);

// Which tokens belong to what the assistant says: from the one that holds the first character of a
// range to the one that holds its last, as transformers counts.
std::vector<bool> tokens_in(std::span<const text::ByteRange> ranges,
                            std::span<const text::Span> tokens);

}  // namespace ringshard::data
