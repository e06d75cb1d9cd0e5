#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/text/chat_template.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

// Makes a row of a known form from the columns of another, by Jinja.
class RowTemplate {
public:
    // `source`: columns as a JSON mapping, whose texts are templates, at any depth; or one template
    // that renders the row as JSON. NAME_from_json is the column NAME, parsed. `variables`: names
    // that stand beside the columns.
    static Expected<RowTemplate> parse(const std::string& source, text::Value::Object variables);

    // Fails if a template fails on this row, or needs a name that the row and the variables lack.
    Expected<text::Value> apply(const text::Value& row) const;

    // Returns the names that the templates read.
    const std::vector<std::string>& names() const { return names_; }

private:
    struct Node;
    class Reader;
    Expected<text::Value> render(const Node& node, const text::Value::Object& variables) const;
    Expected<std::string> render_text(const Node& node, const text::Value::Object& variables) const;

    std::shared_ptr<const Node> root_;
    text::Value::Object variables_;
    std::vector<std::string> names_;
    // NAME_from_json and NAME: the column, parsed.
    std::vector<std::pair<std::string, std::string>> parsed_;
};

// Reads the setting row_template: the text of a template, or the name of a file that holds one.
Expected<std::string> read_row_template(const std::string& setting);

// Reads the setting template_variables: a mapping as JSON; empty: none.
Expected<text::Value::Object> read_template_variables(const std::string& setting);

// Replaces {{NAME}} in the texts of a row, at any depth. Fails if a name of capital letters is not
// among the variables.
std::optional<Failure> fill_placeholders(text::Value& value, const text::Value::Object& variables);

}  // namespace ringshard::data
