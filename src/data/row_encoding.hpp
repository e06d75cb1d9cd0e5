#pragma once

#include <atomic>
#include <map>

#include "agent_template.hpp"
#include "loss_scale.hpp"
#include "ringshard/data/format.hpp"
#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// What an encoder reads rows with, shared by its threads.
struct EncoderParts {
    FormatSettings settings;
    std::optional<TextTools> tools;
    std::optional<LossScale> scale;      // of loss_scale
    std::optional<AgentTemplate> agent;  // of agent_template
    mutable std::atomic<int64_t> merged_prompts = 0;
    mutable std::atomic<int64_t> rows_with_reasoning = 0;
};

// What a thread keeps from row to row.
struct EncoderState {
    std::map<std::string, bool, std::less<>> read_keys;  // by message key
    std::optional<text::Tokenizer::Scratch> tokenizer;
    std::vector<int32_t> prompt;
    std::vector<text::Span> spans;
};

// The encoding of one row: refers to the encoder, the row and the thread's state.
class RowEncoding {
public:
    RowEncoding(const EncoderParts& parts, const text::Value& row, const DatasetFormat& format,
                EncoderState& state, EncodedRow& into)
        : parts_(parts), row_(row), format_(format), state_(state), into_(into) {}

    std::optional<Failure> encode_text();
    std::optional<Failure> encode_prompt_completion();
    std::optional<Failure> encode_chat();
    std::optional<Failure> encode_chat_prompt_completion();
    // Encodes a conversation if there is a chat template, otherwise Stanford's Alpaca text.
    std::optional<Failure> encode_alpaca();
    std::optional<Failure> encode_marked_segments();

protected:
    std::optional<Failure> encode_prompt_completion(const std::string& prompt,
                                                    std::string completion);
    // Searches reasoning from `begin` on.
    std::optional<Failure> encode_learned_text(const std::string& text, size_t begin);
    std::optional<Failure> encode_chat_prompt_completion(const text::Value& prompt,
                                                         const text::Value& completion);
    Expected<text::Value> read_text_messages(const char* column);
    // Keeps the text of messages, and records unread keys.
    std::optional<Failure> take_text(text::Value& messages);
    // Returns true if the chat template reads a message key.
    bool is_read(const std::string& key);
    std::optional<Failure> encode_messages(const text::Value& messages);
    // Reads the columns of a conversation, with tools in the form of agent_template.
    Expected<TextTools::Chat> read_chat(const text::Value& messages) const;
    // Tokenizes the text of the row; stores each token's span in the state.
    std::optional<Failure> tokenize_with_spans(const std::string& text,
                                               text::SpecialTokens special);
    std::optional<Failure> tokenize(const std::string& text, text::SpecialTokens special,
                                    std::vector<int32_t>& ids);
    // Locates the completion by the first difference between the tokens of the prompt alone and of
    // the row.
    void mask_prompt();
    // Appends the end token where the text lacks it, as TRL does.
    void end_with_eos(std::string& text) const;

    const EncoderParts& parts_;
    const text::Value& row_;
    const DatasetFormat& format_;
    EncoderState& state_;
    EncodedRow& into_;
};

}  // namespace ringshard::data
