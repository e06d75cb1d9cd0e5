#pragma once

#include "ringshard/data/format.hpp"

// The columns of a row, read and checked. Failures name the column.
namespace ringshard::data {

inline Failure bad_row(const std::string& what) { return {ExitCode::bad_data, what}; }

std::optional<Failure> read_text(const text::Value& row, const std::string& column,
                                 std::string& into);

// Adds a system message to a conversation that has none; an empty prompt adds nothing.
void add_system_message(const std::string& system_prompt, text::Value& messages);

// Returns the list of a column, with ShareGPT's keys renamed. Every message needs a role.
Expected<text::Value> read_messages(const text::Value& row, const char* column, bool is_share_gpt);

// Reads tokens, labels, masks, weights and lengths of documents.
std::optional<Failure> read_pretokenized(const text::Value& row, const DatasetFormat& format,
                                         EncodedRow& into);

// Weighs the targets of an answer by its column label: 1, or -1 if it is undesirable.
std::optional<Failure> apply_judgement(const text::Value& row, EncodedRow& into);

// Multiplies the loss of every token by the column weight. A row of weight 0 has no targets.
std::optional<Failure> apply_row_weight(const text::Value& row, EncodedRow& into);

// Records unused columns; filled columns of images, audio and video are a failure without
// text_only.
std::optional<Failure> record_unused_columns(const text::Value& row, const DatasetFormat& format,
                                             bool text_only, EncodedRow& into);

}  // namespace ringshard::data
