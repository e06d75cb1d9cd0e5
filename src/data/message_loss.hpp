#pragma once

#include <span>
#include <vector>

#include "ringshard/data/format.hpp"
#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// Loss settings inside a message.
struct MessageMarks {
    std::optional<bool> train{};  // from the keys train, training or loss_mask
    float weight = 1;             // 0: no loss
};

// Returns true if a message's key is one of these marks, which templates need not read.
bool is_message_mark(std::string_view key);

// Reads the marks of every message; empty if no message has any. A failure names the message.
Expected<std::vector<MessageMarks>> read_message_marks(const text::Value& messages);

// Returns true if the loss of this conversation depends on the position of each message.
bool needs_message_spans(const FormatSettings& settings, std::span<const MessageMarks> marks);

// Reads a finite number of at least 0; `name`: for the failure's message.
Expected<float> read_weight(const text::Value& value, const std::string& name);

// A conversation as text and as tokens.
struct RenderedChat {
    const TextTools::Chat& chat;
    const text::Rendered& rendered;
    std::span<const text::Span> tokens;
    bool learns_assistant_only;  // by `rendered.assistant`; otherwise every token
};

// Sets labels and weights of a conversation message by message. Expects the tokens as labels.
// Returns true if it found a reasoning marker.
Expected<bool> apply_message_loss(const RenderedChat& row, std::span<const MessageMarks> marks,
                                  const FormatSettings& settings, const TextTools& tools,
                                  EncodedRow& into);

// Removes the labels of the parts of messages that have no targets. Fails if the chat template
// renders another content than the message's.
std::optional<Failure> mask_unlearned(const RenderedChat& row, const TextTools& tools,
                                      std::vector<int32_t>& labels);

// Removes labels of reasoning, with its markers, from tokens within `range` of the text. Reasoning
// extends from the first marker to the second, or to the end; a second marker without a first one
// ends reasoning that starts at the beginning. With a third marker only reasoning without a word at
// the start of the range counts. Returns true if there is any.
bool mask_reasoning(std::string_view text, text::ByteRange range,
                    const std::vector<std::string>& marks, std::span<const text::Span> tokens,
                    std::vector<int32_t>& labels);

}  // namespace ringshard::data
