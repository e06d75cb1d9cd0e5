#pragma once

#include <string>
#include <string_view>

#include "ringshard/base/error.hpp"
#include "ringshard/text/value.hpp"

// Reads a tokenizer.json: values of the right type, or an Error that names the place. The entry
// point catches it and adds the file's name.
namespace ringshard::text {

using Json = Value;

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ExitCode::bad_data, what); }
[[noreturn]] inline void refuse_kind(std::string_view part, std::string_view kind) {
    refuse(format_text("{} of type {} is not supported", part, kind));
}

// Returns the value of a key; nullptr if it is null or missing.
inline const Json* find(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
}
inline const Json& get(const Json& object, std::string_view key) {
    const Json* value = find(object, key);
    if (value == nullptr) refuse(format_text("\"{}\" is missing", key));
    return *value;
}
inline bool is_object(const Json& value) { return value.object() != nullptr; }

inline const std::string& text_of(const Json& object, std::string_view key) {
    const std::string* text = get(object, key).string();
    if (text == nullptr) refuse(format_text("\"{}\" is not a string", key));
    return *text;
}
inline bool flag_of(const Json& object, std::string_view key, std::optional<bool> otherwise = {}) {
    const Json* value = find(object, key);
    if (value == nullptr && otherwise) return *otherwise;
    const bool* flag = value == nullptr ? nullptr : value->truth();
    if (flag == nullptr) refuse(format_text("\"{}\" is neither true nor false", key));
    return *flag;
}
inline const Json::List& list_of(const Json& object, std::string_view key) {
    const Json::List* list = get(object, key).list();
    if (list == nullptr) refuse(format_text("\"{}\" is not a list", key));
    return *list;
}

}  // namespace ringshard::text
