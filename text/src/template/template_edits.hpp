#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ringshard::text {

// One change of a template: the next occurrence of `from` behind the previous change becomes `put`,
// in which @ stands for `from`. With `until`, the text up to its next occurrence goes, too.
struct TemplateEdit {
    std::string_view from;
    std::string_view put;
    std::string_view until = {};
};

// A chat template that a model family ships, known by its text, and the changes that make a
// training template of it.
struct KnownTemplate {
    std::string_view name;
    size_t bytes = 0;
    uint64_t hash = 0;  // FNV-1a of the text
    std::span<const TemplateEdit> edits;
};

std::span<const KnownTemplate> known_templates();

}  // namespace ringshard::text
