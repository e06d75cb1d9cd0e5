#pragma once

#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// The settings whose values are templates, or belong to one.
struct TemplateSettings {
    std::string row_template;
    std::string template_variables;
    std::string datasets;            // JSON: entries may have a row_template of their own
    std::string chat_template;       // the text
    std::string chat_template_path;  // a file, or the folder of a model
};

// Parses the templates without a row; returns a failure for each that is wrong.
std::vector<Failure> check_templates(const TemplateSettings& settings);

}  // namespace ringshard::data
