#pragma once

#include <nlohmann/json.hpp>
#include <string>

// Forms of data that several trainers know, as entries of the setting datasets.
namespace ringshard::config {

// Turns a Python format, "{instruction} ", into Jinja: the fields become columns.
std::string jinja_of_format(const std::string& format,
                            const std::map<std::string, std::string>& columns);

// A row of two texts that are tokenized apart: the prompt begins with the tokenizer's own tokens,
// and the answer ends with the end of a sequence.
nlohmann::ordered_json segments_of(const std::string& prompt, const std::string& answer,
                                   bool learns_prompt);

// Stanford's Alpaca, as axolotl writes and tokenizes it.
nlohmann::ordered_json alpaca_segments(bool learns_prompt);

// The ChatML template.
const char* chatml_template();

}  // namespace ringshard::config
