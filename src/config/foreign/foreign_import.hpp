#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "foreign_trainer.hpp"
#include "ringshard/config/option_table.hpp"

namespace ringshard::config {

// The settings that a recipe becomes.
struct ImportedSettings {
    Statements statements;
    std::vector<std::string> notes;
    // Keys without effect here, with the reason.
    std::vector<std::pair<std::string, std::string>> idle;
};

// Translates a recipe. Every key is translated, named as idle, or refused.
class ForeignImport {
public:
    ForeignImport(const OptionTable& table, const ForeignFile& file, const ForeignTrainer& trainer,
                  Problems& problems);

    ImportedSettings translate();

    const ForeignFile& file() const { return file_; }
    // Returns the value at a path; null if the file does not have it.
    const nlohmann::ordered_json& at(const std::string& path) const;
    bool has(const std::string& path) const { return !at(path).is_null(); }
    bool is_on(const std::string& path) const;
    std::string text(const std::string& path, const std::string& otherwise = {}) const;
    double number(const std::string& path, double otherwise) const;

    // `path`: the key from which the value comes.
    void set(const std::string& path, const std::string& setting, const std::string& value);
    void set(const std::string& path, const std::string& setting,
             const nlohmann::ordered_json& value);
    // Of a key that only a base in four bits has: idle for another base. Nothing if it is not
    // there.
    void set_of_four_bits(bool is_held, const std::string& path, const std::string& setting);
    // Adds a member of config.json.
    void set_model_field(const std::string& path, const std::string& field,
                         const nlohmann::ordered_json& value);
    // Sets the other trainer's default.
    void set_default(const std::string& setting, const std::string& value);
    void note(const std::string& path, const std::string& text);
    void idle(const std::string& path, std::string_view reason);
    void refuse(const std::string& path, std::string_view reason);
    // Refuses a key beside another, if the other trainer refuses them together and both are there.
    void refuse_beside(const std::string& path, const std::string& other);

private:
    void walk(const std::string& path, const nlohmann::ordered_json& value);
    void take(const ForeignKey& key, const std::string& path, const nlohmann::ordered_json& value);
    const ForeignKey* find(const std::string& path) const;
    bool is_block(const std::string& path) const;
    void report_unknown(const std::string& path, const nlohmann::ordered_json& value);
    void report_silent();
    Origin origin(const std::string& path) const;

    const OptionTable& table_;
    const ForeignFile& file_;
    const ForeignTrainer& trainer_;
    Problems& problems_;
    std::vector<std::span<const ForeignKey>> tables_;
    ImportedSettings result_;
    std::vector<std::string> read_;  // paths of keys that the trainer's own function reads
    std::set<std::string> told_;     // paths that a setting, a note or a refusal names
};

// Returns true for null, false, 0 and what is empty, at any depth.
bool asks_for_nothing(const nlohmann::ordered_json& value);
// Returns the text of a value as a setting takes it.
std::string setting_text(const nlohmann::ordered_json& value);

}  // namespace ringshard::config
