#pragma once

#include "ringshard/data/format.hpp"
#include "ringshard/text/tokenizer.hpp"

namespace ringshard::data {

// A conversation as the template prints it.
struct RenderedChat {
    std::string text;
    std::vector<text::Span> assistant;  // bytes that the assistant says, if asked for
};

// The tokenizer of a model and its chat template: text and conversations to tokens.
class TextTools {
public:
    static Expected<TextTools> load(const FormatSettings& settings, bool needs_template);
    TextTools(TextTools&&) noexcept;
    ~TextTools();

    const text::Tokenizer& tokenizer() const;
    const std::string& eos() const;  // as text; empty if the tokenizer has none

    struct Chat {
        const text::Value& messages;
        text::Value tools;      // list or null
        text::Value variables;  // object or null: more variables for the template
        bool adds_generation_prompt = false;
    };
    Expected<RenderedChat> render(const Chat& chat, bool finds_assistant) const;

private:
    struct Parts;
    explicit TextTools(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

// Which tokens belong to what the assistant says: from the one that holds the first character of a
// span to the one that holds its last, as transformers counts.
std::vector<bool> tokens_in(std::span<const text::Span> spans, std::span<const text::Span> tokens);

}  // namespace ringshard::data
