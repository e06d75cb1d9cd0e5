#pragma once

#include <span>
#include <vector>

#include "ringshard/data/format.hpp"
#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// What a message says about its own loss.
struct MessageMarks {
    std::optional<bool> train{};  // train, training or loss_mask
    float weight = 1;             // 0: not learned
};

// Whether a key of a message is one of the marks, and so no template has to read it.
bool is_message_mark(std::string_view key);

// Reads the marks of every message; none where no message has any. A failure names the message.
Expected<std::vector<MessageMarks>> read_message_marks(const text::Value& messages);

// Whether the loss of this conversation depends on where each of its messages stands.
bool needs_message_spans(const FormatSettings& settings, std::span<const MessageMarks> marks);

// Reads a finite number from 0 on; `name` is for the message of a failure.
Expected<float> read_weight(const text::Value& value, const std::string& name);

// A conversation as text and as tokens.
struct RenderedChat {
    const TextTools::Chat& chat;
    const text::Rendered& rendered;
    std::span<const text::Span> tokens;
    bool learns_assistant_only;  // as `rendered.assistant` says; else every token
};

// Decides by message what of a conversation is learned, and sets labels and weights accordingly.
// Expects the tokens themselves as labels. Returns whether a mark of reasoning was found.
Expected<bool> apply_message_loss(const RenderedChat& row, std::span<const MessageMarks> marks,
                                  const FormatSettings& settings, const TextTools& tools,
                                  EncodedRow& into);

// Removes reasoning from the labels of tokens from `begin` on in the text, with its marks.
// Reasoning goes from the first mark to the second, or to the end; before a second mark without a
// first one it goes from the beginning. Returns whether there was any.
bool mask_reasoning(std::string_view text, text::ByteRange range,
                    const std::vector<std::string>& marks, std::span<const text::Span> tokens,
                    std::vector<int32_t>& labels);

}  // namespace ringshard::data
