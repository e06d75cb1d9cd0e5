#pragma once

#include "ringshard/data/format.hpp"

// Rows of documents that are scored whole.
namespace ringshard::data {

// The form of a text, or of a conversation, with a label.
Expected<DatasetFormat> find_labelled(const text::Value& row, const FormatSettings& settings);

// Takes the labels from the config.json of the model's folder, where the settings give none.
std::optional<Failure> take_labels_of_model(FormatSettings& settings);

// Takes the pooling that the model's folder has for sentence-transformers, if it has one.
std::optional<Failure> take_pooling_of_model(FormatSettings& settings);

// The finite number of a column, label or margin.
Expected<float> read_number(const text::Value& row, const char* column);
// The number of a row's label; of several a number whose bits they are.
Expected<int32_t> read_label(const text::Value& row, const FormatSettings& settings);

// Gives the tokens from `first` on their label: padding has none. A document of padding alone has
// its label at the first token.
void label_document(int32_t label, int32_t padding, size_t first, EncodedRow& into);

}  // namespace ringshard::data
