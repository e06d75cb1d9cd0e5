#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ringshard/data/left_aside.hpp"
#include "ringshard/data/row_mapping.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// How rows of a dataset become tokens and labels.
struct FormatSettings {
    std::filesystem::path tokenizer{};      // a Hugging Face folder
    std::filesystem::path chat_template{};  // a file or a folder; empty: the tokenizer's own
    std::string eos_token{};                // empty: the tokenizer's own
    std::vector<std::string> added_tokens{};
    std::string text_field = "text";
    std::optional<bool> completion_only_loss{};  // unset: where there are prompts and completions
    bool assistant_only_loss = false;
    std::vector<std::string> roles_to_train{};  // what these say is learned; none: as above
    bool train_on_last_turn_only = false;
    // What reasoning, which is not learned, begins and ends with; none: it is learned.
    std::vector<std::string> mask_reasoning{};
    bool text_only = false;  // images, audio and video beside the text are left aside

    bool chooses_messages() const { return !roles_to_train.empty() || train_on_last_turn_only; }
};

// The columns that decide what a row is, and those that it is made of.
std::vector<std::string> known_columns(const FormatSettings& settings);

// The forms of a row. The first row decides for the whole dataset.
enum class Layout {
    pretokenized,
    text,
    chat,
    prompt_completion,
    chat_prompt_completion,
    alpaca  // instruction, input, output
};
struct DatasetFormat {
    Layout layout = Layout::text;
    bool is_share_gpt = false;  // messages with from and value
    // Which masks of a row decide what is learned.
    bool uses_completion_mask = false;
    bool uses_assistant_mask = false;
    std::vector<std::string> used_columns{};
    std::vector<std::string> warnings{};  // for the user, about what the settings come to
};
Expected<DatasetFormat> find_format(const text::Value& first_row, const FormatSettings& settings);

// A row as tokens. labels: the token, or no_label.
struct EncodedRow {
    std::vector<int32_t> tokens;
    std::vector<int32_t> labels;
    std::vector<float> weights;  // of the tokens' losses, above 0; empty: 1 each
    std::vector<int32_t> document_lengths;
    std::vector<Unused> unused;
};

// Turns rows into tokens. Threads may share one; each has a Scratch of its own.
class RowEncoder {
public:
    // For rows of these formats: rows that are tokens already need no tokenizer.
    static Expected<RowEncoder> make(const FormatSettings& settings,
                                     std::span<const DatasetFormat> formats);
    RowEncoder(RowEncoder&&) noexcept;
    RowEncoder& operator=(RowEncoder&&) = delete;
    ~RowEncoder();

    class Scratch;
    // A failure is one of this row.
    std::optional<Failure> encode(const text::Value& row, const DatasetFormat& format,
                                  Scratch& scratch, EncodedRow& into) const;

    // The assistant's turns are found by rendering prefixes: the chat template does not mark them.
    bool finds_assistant_by_prefixes() const;
    // There is a chat template: rows with instruction and output become conversations.
    bool has_chat_template() const;
    // Rows whose prompt alone has other tokens than as the beginning of the whole row, so far.
    int64_t num_merged_prompts() const;
    // Rows in which reasoning was found and left out of the loss, so far.
    int64_t num_rows_with_reasoning() const;

private:
    struct Parts;
    class Work;
    explicit RowEncoder(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

class RowEncoder::Scratch {
public:
    explicit Scratch(const RowEncoder& encoder);
    Scratch(Scratch&&) noexcept;
    ~Scratch();

private:
    friend class RowEncoder;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ringshard::data
