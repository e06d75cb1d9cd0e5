#include <algorithm>
#include <array>

#include "ringshard/data/left_aside.hpp"

namespace ringshard::data {

using text::Value;

namespace {

// Returns the media type of a part of a message's content; empty for text and other parts that a
// template may handle.
std::string media_of(const Value& part) {
    static constexpr std::array types{"image",     "images",     "image_url",   "input_image",
                                      "audio",     "audio_url",  "input_audio", "video",
                                      "video_url", "input_video"};
    const Value* type = part.find("type");
    if (type != nullptr && type->string() != nullptr)
        return std::ranges::find(types, *type->string()) != types.end() ? *type->string() : "";
    for (const char* key : {"image", "image_url", "audio", "video"})
        if (const Value* value = part.find(key); value != nullptr && !value->is_null()) return key;
    return "";
}

// Returns the text of a pure text part.
const std::string* text_of(const Value& part) {
    if (part.string() != nullptr) return part.string();
    const Value* words = part.find("text");
    return words != nullptr ? words->string() : nullptr;
}

// Replaces a list of texts by one text.
void join_texts(Value& content) {
    std::string joined;
    for (const Value& part : *content.list()) {
        const std::string* words = text_of(part);
        if (words == nullptr) return;
        joined += *words;
    }
    content = Value(std::move(joined));
}

}  // namespace

bool is_media_column(std::string_view name) {
    static constexpr std::array<std::string_view, 7> names{
        "image", "images", "audio", "audios", "video", "videos", "pixel_values"};
    return std::ranges::find(names, name) != names.end();
}

bool holds_media(const Value& column) {
    if (column.is_null()) return false;
    if (column.list() != nullptr)
        return std::ranges::any_of(*column.list(), [](const Value& one) { return !one.is_null(); });
    return column.string() == nullptr || !column.string()->empty();
}

Failure refuse_media(const std::string& where) {
    return {ExitCode::bad_data, format_text("{}, and text alone is learned; text_only = true takes "
                                            "the text and leaves the rest aside",
                                            where)};
}

std::optional<Failure> take_text(Value& messages, bool text_only, std::vector<Unused>& unused) {
    size_t number = 0;
    for (Value& message : *messages.list()) {
        ++number;
        Value::Object* members = message.object();
        if (members == nullptr) continue;
        for (auto& [name, content] : *members) {
            if (name != "content" || content.list() == nullptr) continue;
            std::string kind;
            for (const Value& part : *content.list())
                if (kind.empty()) kind = media_of(part);
            if (!kind.empty() && !text_only)
                return refuse_media(
                    format_text("message {} holds a part of the type {}", number, kind));
            if (!text_only) continue;
            const Unused found{Unused::Kind::media, "content of the type " + kind};
            if (!kind.empty() && std::ranges::find(unused, found) == unused.end())
                unused.push_back(found);
            std::erase_if(*content.list(),
                          [](const Value& part) { return !media_of(part).empty(); });
            join_texts(content);
        }
    }
    return std::nullopt;
}

}  // namespace ringshard::data
