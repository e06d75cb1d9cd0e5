#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../statement.hpp"

namespace ringshard::config {

// A recipe of another trainer: a YAML or JSON file, or the command line in a shell script.
struct ForeignFile {
    std::string name;
    nlohmann::ordered_json content = nlohmann::ordered_json::object();
    std::map<std::string, std::string> lines{};  // "recipe.yaml:12" by path, as optimizer.lr
    std::vector<std::string> repeated{};         // paths with two values

    // Returns "recipe.yaml:12, optimizer.lr".
    std::string place(const std::string& path) const;
};

// Reads YAML, of which JSON is a part. `text` is a mapping, which the caller has checked.
ForeignFile read_foreign_yaml(const std::string& text, const std::string& name);

// Reads the first command of a trainer in a shell script, and the recipe that it names. Flags come
// before the recipe. "command" has the first words, as "swift sft", and "launcher" what starts it.
ForeignFile read_foreign_shell(const std::string& script, const std::string& name,
                               Problems& problems);

}  // namespace ringshard::config
