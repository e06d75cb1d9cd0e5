#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringshard/config/activation_policies.hpp"
#include "ringshard/config/option.hpp"

// Formats and parses values. Parsing returns the broken rule, or nothing.
namespace ringshard::config {

using Rule = std::optional<std::string>;

bool is_null(std::string_view text);                      // null, none, ~ or an empty text
std::optional<bool> read_boolean(std::string_view text);  // true, yes, on, 1, ... in any case
std::optional<double> read_number(std::string_view text);

Rule read_value(const std::string& text, bool& value);
Rule read_value(const std::string& text, int64_t& value);
Rule read_value(const std::string& text, double& value);
Rule read_value(const std::string& text, std::string& value);
Rule read_value(const std::string& text, std::vector<std::string>& value);
Rule read_value(const std::string& text, std::vector<int64_t>& value);

Rule read_value(const std::string& text, ActivationPolicies& value);

// Whether the keys of a JSON object are sorted, or stay in the order of the text.
enum class KeyOrder { sorted, of_text };
Rule read_json(const std::string& text, std::string& value,
               KeyOrder order = KeyOrder::sorted);  // kept as normalized text

std::string write_value(bool value);
std::string write_value(int64_t value);
std::string write_value(double value);
std::string write_value(const std::string& value);
std::string write_value(const std::vector<std::string>& value);
std::string write_value(const std::vector<int64_t>& value);
std::string write_value(const ActivationPolicies& value);

// Returns true if two texts have the same value for this shape: "False" and "no", "1" and "1.0".
bool same_meaning(Shape shape, const std::string& a, const std::string& b);

// Specialised in enum_names.hpp: pairs of text and value; the first text of a value is its printed
// form.
template <class Enum>
struct EnumNames;

template <class Enum>
requires std::is_enum_v<Enum> std::vector<std::string> names_of() {
    std::vector<std::string> names;
    std::vector<Enum> seen;
    for (const auto& [name, value] : EnumNames<Enum>::table) {
        bool is_new = true;
        for (const Enum earlier : seen) is_new = is_new && earlier != value;
        if (is_new) names.emplace_back(name);
        seen.push_back(value);
    }
    return names;
}

std::string one_of(const std::vector<std::string>& names);  // "must be one of a, b or c"
std::string lower_with_underscores(std::string_view text);

template <class Enum>
requires std::is_enum_v<Enum> Rule read_value(const std::string& text, Enum& value) {
    const std::string wanted = lower_with_underscores(text);
    for (const auto& [name, meaning] : EnumNames<Enum>::table) {
        if (wanted != name) continue;
        value = meaning;
        return std::nullopt;
    }
    return one_of(names_of<Enum>());
}

template <class Enum>
requires std::is_enum_v<Enum> std::string write_value(Enum value) {
    for (const auto& [name, meaning] : EnumNames<Enum>::table)
        if (meaning == value) return std::string(name);
    return {};
}

template <class T>
Rule read_value(const std::string& text, std::optional<T>& value) {
    if (is_null(text)) {
        value.reset();
        return std::nullopt;
    }
    T content{};
    Rule broken = read_value(text, content);
    if (!broken) value = content;
    return broken;
}

template <class T>
std::string write_value(const std::optional<T>& value) {
    return value ? write_value(*value) : "null";
}

template <class T>
struct ShapeOf {
    static constexpr Shape value = Shape::word;
};
template <>
struct ShapeOf<bool> {
    static constexpr Shape value = Shape::boolean;
};
template <>
struct ShapeOf<int64_t> {
    static constexpr Shape value = Shape::integer;
};
template <>
struct ShapeOf<double> {
    static constexpr Shape value = Shape::number;
};
template <>
struct ShapeOf<std::vector<std::string>> {
    static constexpr Shape value = Shape::list;
};
template <>
struct ShapeOf<std::vector<int64_t>> {
    static constexpr Shape value = Shape::list;
};
template <class T>
struct ShapeOf<std::optional<T>> {
    static constexpr Shape value = ShapeOf<T>::value;
};

// Texts and optional values can be null; numbers, booleans and choices cannot.
template <class T>
struct CanBeNull {
    static constexpr bool value = std::is_same_v<T, std::string> ||
                                  std::is_same_v<T, std::vector<std::string>> ||
                                  std::is_same_v<T, std::vector<int64_t>>;
};
template <class T>
struct CanBeNull<std::optional<T>> {
    static constexpr bool value = true;
};

template <class T>
struct EnumIn {
    using type = T;
};
template <class T>
struct EnumIn<std::optional<T>> {
    using type = T;
};

}  // namespace ringshard::config
