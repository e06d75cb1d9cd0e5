#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

// Reads fields of config.json, or of an object in it, and remembers the first that is missing or of
// the wrong kind. A field that is null is not there.
class ConfigReader {
public:
    // `prefix` stands before names in messages: "rope_scaling: ".
    ConfigReader(std::filesystem::path file, nlohmann::json content, std::string prefix = {})
        : file_(std::move(file)), content_(std::move(content)), prefix_(std::move(prefix)) {}

    const std::filesystem::path& file() const { return file_; }
    const nlohmann::json& content() const { return content_; }
    bool has(const char* name) const { return !part(name).is_null(); }
    nlohmann::json part(const char* name) const { return content_.value(name, nlohmann::json()); }

    // At most `most`: a larger number is a slip, and products of sizes must fit.
    int64_t whole_number(const char* name, int64_t most);
    int64_t whole_number_or(const char* name, int64_t most, int64_t otherwise);
    double number_above_0(const char* name);
    double number_above_0(const char* name, double otherwise);
    bool boolean(const char* name, bool otherwise);
    std::string word(const char* name, const std::string& otherwise);

    void complain(const std::string& rule);
    void complain(const ConfigReader& inner);  // with the problems of the other one
    const std::optional<Failure>& failure() const { return failure_; }

private:
    std::filesystem::path file_;
    nlohmann::json content_;
    std::string prefix_;
    std::optional<Failure> failure_;
};

}  // namespace ringshard::model
