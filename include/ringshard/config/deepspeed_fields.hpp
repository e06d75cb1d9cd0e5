#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace ringshard::config {

// The meaning of a field of a DeepSpeed file.
enum class FieldMeaning {
    sets,            // the setting `text`
    binds,           // the setting `text`, and no stronger source may give another value
    idle,            // nothing: `text` says why it is not needed
    refused,         // `text` says why; false, null, "auto" and `harmless` values may stand
    unless_enabled,  // a block that is refused, for the reason `text`, if its "enabled" is true
};

struct DeepSpeedField {
    std::string_view path;  // "zero_optimization.stage"; a whole block if it ends in ".*"
    FieldMeaning meaning;
    std::string_view text;
    std::array<std::string_view, 2> harmless{};

    bool is_block() const { return path.ends_with(".*"); }
    std::string_view name() const { return is_block() ? path.substr(0, path.size() - 2) : path; }
};

// All that DeepSpeed, and the files people share, know. What else stands in `optimizer` and
// `scheduler` is read by deepspeed_file.cpp.
std::span<const DeepSpeedField> deepspeed_fields();

// The entry of a path: its own, or that of the innermost block it lies in.
const DeepSpeedField* find_deepspeed_field(std::string_view path);
// Does an entry lie below this path?
bool is_deepspeed_block(std::string_view path);
std::string nearest_deepspeed_field(const std::string& path);

}  // namespace ringshard::config
