#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/data/left_aside.hpp"
#include "ringshard/data/row_content.hpp"
#include "ringshard/data/row_mapping.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// How to turn rows of a dataset into tokens and labels.
struct FormatSettings {
    std::filesystem::path tokenizer{};      // a Hugging Face folder
    std::filesystem::path chat_template{};  // a file or a folder; empty: the tokenizer's own
    std::string chat_template_text{};       // Jinja, in place of `chat_template`
    std::string system_prompt{};            // the system message of conversations that have none
    std::string eos_token{};                // empty: the tokenizer's own
    std::vector<std::string> added_tokens{};
    std::string text_field = "text";
    std::optional<bool> completion_only_loss{};  // unset: true for rows with prompt and completion
    bool assistant_only_loss = false;
    std::vector<std::string> roles_to_train{};  // train on messages of these roles; empty: as above
    bool train_on_last_turn_only = false;
    // Begin and end markers of reasoning to leave out of the loss; empty: train on reasoning.
    std::vector<std::string> mask_reasoning{};
    std::vector<std::string> loss_scale{};  // rules of ms-swift for parts of answers
    std::string agent_template{};           // form of tools; empty: the chat template's
    bool text_only = false;                 // drop images, audio and video from the rows
    RowContent content{};
    int64_t num_labels = 0;                  // of scored documents that are no pairs
    std::vector<std::string> class_names{};  // of all labels, or none
    bool has_label_sets = false;             // a document has several labels, or none

    bool chooses_messages() const { return !roles_to_train.empty() || train_on_last_turn_only; }
};

// Returns the columns that determine the form of a row, and those with its content.
std::vector<std::string> known_columns(const FormatSettings& settings);
// Those of rows of every kind.
std::vector<std::string> all_columns();

// The forms of a row. The first row determines the form of the whole dataset.
enum class RowForm {
    pretokenized,
    text,
    chat,
    prompt_completion,
    chat_prompt_completion,
    alpaca,    // instruction, input, output
    segments,  // texts that are tokenized apart
    pair,      // chosen and rejected answers to one prompt, two documents
    chat_pair,
    texts,          // an anchor, a positive and negatives
    labelled_text,  // a text, or a conversation, with the label of the whole
    labelled_chat
};
struct DatasetFormat {
    RowForm form = RowForm::text;
    bool is_share_gpt = false;  // messages with the keys from and value
    // The masks of a row that select its targets.
    bool uses_completion_mask = false;
    bool uses_assistant_mask = false;
    bool has_prompt = true;       // of a pair; else it is what both answers begin with
    bool is_taken_apart = false;  // a row is a pair, of which each answer becomes a sample
    std::vector<std::string> used_columns{};
    std::vector<std::string> warnings{};  // for the user, about the effect of the settings
};
Expected<DatasetFormat> find_format(const text::Value& first_row, const FormatSettings& settings);

// A tokenized row. labels: the token, or no_label.
struct EncodedRow {
    std::vector<int32_t> tokens;
    std::vector<int32_t> labels;
    std::vector<float> weights;  // of the tokens' losses, as RowContent has them; empty: 1 each
    std::vector<int32_t> document_lengths;
    std::vector<Unused> unused;
};

struct EncoderParts;
struct EncoderState;

// Tokenizes rows. Threads may share an encoder; each has its own Scratch.
class RowEncoder {
public:
    // For rows of these formats: pretokenized rows need no tokenizer.
    static Expected<RowEncoder> make(const FormatSettings& settings,
                                     std::span<const DatasetFormat> formats);
    RowEncoder(RowEncoder&&) noexcept;
    RowEncoder& operator=(RowEncoder&&) = delete;
    ~RowEncoder();

    class Scratch;
    // Fails if this row is unusable.
    std::optional<Failure> encode(const text::Value& row, const DatasetFormat& format,
                                  Scratch& scratch, EncodedRow& into) const;

    // Returns true if the chat template does not mark the assistant's turns: the encoder finds them
    // by rendering prefixes.
    bool finds_assistant_by_prefixes() const;
    // Returns the model family whose chat template the encoder changed into a training template,
    // for assistant_only_loss; empty: it renders with the chat template itself.
    std::string training_family() const;
    // Returns true if there is a chat template: rows with instruction and output then become
    // conversations.
    bool has_chat_template() const;
    // Returns the number of rows so far whose prompt has other tokens alone than at the start of
    // the whole row.
    int64_t num_merged_prompts() const;
    // Returns the number of rows so far from whose loss the encoder left out reasoning.
    int64_t num_rows_with_reasoning() const;

private:
    explicit RowEncoder(std::unique_ptr<EncoderParts> parts);
    std::unique_ptr<EncoderParts> parts_;
};

class RowEncoder::Scratch {
public:
    explicit Scratch(const RowEncoder& encoder);
    Scratch(Scratch&&) noexcept;
    ~Scratch();

private:
    friend class RowEncoder;
    std::unique_ptr<EncoderState> state_;
};

}  // namespace ringshard::data
