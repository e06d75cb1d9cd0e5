#pragma once

#include <functional>

#include "ringshard/data/format.hpp"
#include "ringshard/text/tokenizer.hpp"

namespace ringshard::data {

// Replaces the ids by those of the text.
using TokenizeText = std::function<std::optional<Failure>(
    const std::string& text, text::SpecialTokens special, std::vector<int32_t>& ids)>;

// Tokenizes each segment of a row by itself, as axolotl's input_output does, without tokens around
// it; or, with joined, all of them as one text.
std::optional<Failure> encode_segments(const text::Value& row, const TokenizeText& tokenize,
                                       EncodedRow& into);

}  // namespace ringshard::data
