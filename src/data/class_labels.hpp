#pragma once

#include <string>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// Names of the classes of columns, which datasets stores beside the schema of a file as ClassLabel.
// A column label has the column label_names.
class ClassLabels {
public:
    // `huggingface`: the text that datasets stores under this key; empty: no names.
    static ClassLabels of(const std::string& huggingface);

    // Adds the lists that are wanted.
    void add(text::Value& row, const std::vector<std::string>& wanted) const;

private:
    text::Value::Object lists_;
};

}  // namespace ringshard::data
