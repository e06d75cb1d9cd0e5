#pragma once

#include <string>

#include "ringshard/config/option_table.hpp"

// Files about the program that the program writes itself, so that they say what it does.
namespace ringshard::cli {

std::string manual_page(const config::OptionTable& table);      // trainer.1, in roff
std::string bash_completion(const config::OptionTable& table);  // to be sourced by bash
std::string settings_page(const config::OptionTable& table);    // docs/settings.md

// By the word after `trainer help`: man, bash-completion or markdown.
bool is_reference_file(const std::string& word);
std::string reference_file(const std::string& word, const config::OptionTable& table);

}  // namespace ringshard::cli
