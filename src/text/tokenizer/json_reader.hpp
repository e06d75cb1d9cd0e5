#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/error.hpp"

// Reading a tokenizer.json: values of the right kind, or an Error that names the place. Whoever
// starts reading catches it and adds the file's name.
namespace ringshard::text {

using Json = simdjson::dom::element;

[[noreturn]] inline void refuse(const std::string& what) { throw Error(ExitCode::bad_data, what); }
[[noreturn]] inline void refuse_kind(std::string_view part, std::string_view kind) {
    refuse(concat(part, " of type ", kind, " is not supported"));
}

// The value of a key; nothing if it is null or not there.
inline std::optional<Json> find(const Json& object, std::string_view key) {
    Json value;
    if (object.get_object().at_key(key).get(value) != simdjson::SUCCESS || value.is_null())
        return std::nullopt;
    return value;
}
inline Json get(const Json& object, std::string_view key) {
    const auto value = find(object, key);
    if (!value) refuse(concat("\"", key, "\" is missing"));
    return *value;
}
inline bool is_object(const Json& value) { return value.is_object(); }

inline std::string text_of(const Json& object, std::string_view key) {
    std::string_view text;
    if (get(object, key).get(text) != simdjson::SUCCESS)
        refuse(concat("\"", key, "\" is not a string"));
    return std::string(text);
}
inline bool flag_of(const Json& object, std::string_view key, std::optional<bool> otherwise = {}) {
    const auto value = find(object, key);
    if (!value && otherwise) return *otherwise;
    bool flag = false;
    if (!value || value->get(flag) != simdjson::SUCCESS)
        refuse(concat("\"", key, "\" is neither true nor false"));
    return flag;
}
inline simdjson::dom::array list_of(const Json& object, std::string_view key) {
    simdjson::dom::array list;
    if (get(object, key).get(list) != simdjson::SUCCESS)
        refuse(concat("\"", key, "\" is not a list"));
    return list;
}

}  // namespace ringshard::text
