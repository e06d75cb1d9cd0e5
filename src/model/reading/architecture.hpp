#pragma once

#include "../config_reader.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::model {

// What few architectures need to say of themselves.
struct Particulars {
    const char* score_class = nullptr;  // transformers' class with a head of scores, or null
    std::vector<std::string> fields{};  // of config.json, those that only this family reads
    // Fields that text_config may leave out, as transformers has them.
    nlohmann::json usual = nlohmann::json::object();
    PeftRules peft{};
};

// A class of models in transformers: its names, and the function that reads its config.json, which
// complains to the reader where a field asks for an unsupported feature.
struct Architecture {
    const char* name;  // nullptr: transformers has it as the text model of others only
    const char* model_type;
    ModelSpec (*read)(ConfigReader& config);
    Particulars more{};
};

// What a file of architectures/ returns, in a function of its name: CMake lists these files.
using Family = std::vector<Architecture>;

// All of them, in the order of the files.
const std::vector<Architecture>& all_architectures();

// Returns the architecture that `architectures` and `model_type` name; one of them is enough.
// Complains to `config`, and returns nullptr, where they name none, or two different ones.
const Architecture* find_architecture(ConfigReader& config);

// Returns true if a config.json is of a class with a head of scores.
bool names_score_class(const nlohmann::json& config);

// Returns that of this name, or nullptr.
const Architecture* find_architecture(const std::string& name);

// Returns the text model that a text_config names, which may have no class of its own; nullptr
// if no text model has this name.
const Architecture* find_text_architecture(const std::string& model_type);
// Returns the names of all text models.
std::string text_architectures();

// Returns a config.json with both fields: transformers cannot load one without model_type, and
// other readers look for architectures. One that has both stays as it is, byte for byte.
std::string with_architecture(const std::string& config_json, const Architecture& architecture);

}  // namespace ringshard::model
