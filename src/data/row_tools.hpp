#pragma once

#include <span>

#include "ringshard/data/text_tools.hpp"

namespace ringshard::data {

// Loads the tokenizer and the chat template that rows of these formats need. Fails if a setting is
// for conversations, and there is no chat template that makes some of the rows.
Expected<TextTools> load_row_tools(const FormatSettings& settings,
                                   std::span<const DatasetFormat> formats);

}  // namespace ringshard::data
