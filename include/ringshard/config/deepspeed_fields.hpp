#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace ringshard::config {

// Effect of a field of a DeepSpeed file.
enum class FieldMeaning {
    sets,            // sets the setting `text`
    binds,           // sets the setting `text`; no stronger source may give another value
    idle,            // no effect, for the reason `text`
    refused,         // refused, for the reason `text`, unless false, null, "auto" or `harmless`
    unless_enabled,  // a block that is refused for the reason `text` if its "enabled" is true
};

struct DeepSpeedField {
    std::string_view path;  // "zero_optimization.stage"; a block if it ends in ".*"
    FieldMeaning meaning;
    std::string_view text;
    std::array<std::string_view, 2> harmless{};

    bool is_block() const { return path.ends_with(".*"); }
    std::string_view name() const { return is_block() ? path.substr(0, path.size() - 2) : path; }
};

// Returns all fields that DeepSpeed, and published files, use. deepspeed_file.cpp reads the other
// fields of `optimizer` and `scheduler`.
std::span<const DeepSpeedField> deepspeed_fields();

// Returns the entry of a path: its own, or that of the innermost block around it.
const DeepSpeedField* find_deepspeed_field(std::string_view path);
// Returns true if an entry lies below this path.
bool is_deepspeed_block(std::string_view path);
std::string nearest_deepspeed_field(const std::string& path);

}  // namespace ringshard::config
