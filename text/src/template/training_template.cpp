#include "ringshard/text/training_template.hpp"

#include <algorithm>

#include "ringshard/base/error.hpp"
#include "template_edits.hpp"

namespace ringshard::text {

namespace {

uint64_t hash_of(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

// Jinja reads both ends of a line alike.
std::string with_plain_line_ends(std::string_view source) {
    std::string text;
    text.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i)
        if (source[i] != '\r' || i + 1 == source.size() || source[i + 1] != '\n') text += source[i];
    return text;
}

size_t find_next(const std::string& text, std::string_view wanted, size_t from,
                 const KnownTemplate& known) {
    const size_t at = text.find(wanted, from);
    RINGSHARD_CHECK(at != std::string::npos, "the template of {} lacks \"{}\"", known.name, wanted);
    return at;
}

std::string apply(const KnownTemplate& known, const std::string& text) {
    std::string made;
    size_t at = 0;
    for (const TemplateEdit& edit : known.edits) {
        const size_t begin = find_next(text, edit.from, at, known);
        size_t end = begin + edit.from.size();
        if (!edit.until.empty()) end = find_next(text, edit.until, end, known);
        made.append(text, at, begin - at);
        for (const char c : edit.put)
            if (c == '@')
                made += edit.from;
            else
                made += c;
        at = end;
    }
    return made.append(text, at);
}

}  // namespace

std::optional<TrainingTemplate> make_training_template(std::string_view source) {
    const std::string text = with_plain_line_ends(source);
    const auto known = std::ranges::find_if(known_templates(), [&](const KnownTemplate& one) {
        return one.bytes == text.size() && one.hash == hash_of(text);
    });
    if (known == known_templates().end()) return std::nullopt;
    return TrainingTemplate{std::string(known->name), apply(*known, text)};
}

}  // namespace ringshard::text
