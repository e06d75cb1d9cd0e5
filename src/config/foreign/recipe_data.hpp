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

// A row of a prompt's turns, in Jinja, and two answers to them, which are expressions of Jinja.
std::string pair_template(const std::string& turns, const std::string& chosen,
                          const std::string& rejected);
// The same of one answer, and the column that says whether it is desirable.
std::string judged_template(const std::string& turns, const std::string& answer,
                            const std::string& label);
// The turns in a column of messages, by the keys of a message; `roles`: the names that a role has.
std::string turns_of(const std::string& column, const std::string& role_key,
                     const std::string& content_key, const nlohmann::ordered_json& roles);
// The text of a column that is a message or a text, as an expression of Jinja.
std::string text_of_message(const std::string& column, const std::string& content_key);
// A message of the assistant, in Jinja; content: an expression.
std::string answer_of(const std::string& content);

// The ChatML template.
const char* chatml_template();

}  // namespace ringshard::config
