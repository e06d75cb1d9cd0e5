#pragma once

#include <string>

namespace ringshard::config {

// Returns the row_template of a type of axolotl's datasets of single answers, as chatml.argilla;
// empty for another one.
std::string template_of_answers(const std::string& type);
// The same of pairs of answers.
std::string template_of_pairs(const std::string& type);

}  // namespace ringshard::config
