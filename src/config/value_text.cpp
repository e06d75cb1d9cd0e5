#include "value_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

bool is_null(std::string_view text) {
    const std::string word = lower_case(trim(text));
    return word.empty() || word == "null" || word == "none" || word == "~";
}

std::optional<bool> read_boolean(std::string_view text) {
    const std::string word = lower_case(trim(text));
    for (const auto* yes : {"true", "yes", "on", "1", "t", "y"})
        if (word == yes) return true;
    for (const auto* no : {"false", "no", "off", "0", "f", "n"})
        if (word == no) return false;
    return std::nullopt;
}

std::optional<double> read_number(std::string_view text) {
    text = trim(text);
    if (!text.empty() && text.front() == '+') text.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
        return std::nullopt;
    return value;
}

Rule read_value(const std::string& text, bool& value) {
    const auto read = read_boolean(text);
    if (!read) return "must be true or false";
    value = *read;
    return std::nullopt;
}

Rule read_value(const std::string& text, int64_t& value) {
    const auto read = read_whole_number(trim(text));
    if (!read) return "must be a whole number";
    value = *read;
    return std::nullopt;
}

Rule read_value(const std::string& text, double& value) {
    const auto read = read_number(text);
    if (!read) return "must be a number";
    value = *read;
    return std::nullopt;
}

Rule read_value(const std::string& text, std::string& value) {
    value = is_null(text) ? "" : text;
    return std::nullopt;
}

Rule read_value(const std::string& text, std::vector<std::string>& value) {
    value.clear();
    if (is_null(text)) return std::nullopt;
    const auto list = json_or_null<nlohmann::json>(text);
    if (list.is_object()) return "must be a list of words";
    if (trim(text).starts_with('[')) {
        if (!list.is_array()) return "must be a list such as [\"a\", \"b\"]";
        for (const auto& item : list) {
            if (!item.is_string()) return "must be a list of words";
            value.push_back(item.get<std::string>());
        }
        return std::nullopt;
    }
    std::string spaced = text;
    std::ranges::replace(spaced, ',', ' ');
    for (const std::string& word : split(spaced, ' '))
        if (!word.empty()) value.push_back(word);
    return std::nullopt;
}

Rule read_value(const std::string& text, std::vector<int64_t>& value) {
    value.clear();
    const auto list = json_or_null<nlohmann::json>(text);
    const bool is_list = list.is_array();
    std::vector<std::string> words;
    if (is_list)
        for (const auto& item : list)
            words.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    else if (const Rule broken = read_value(text, words))
        return broken;
    for (const std::string& word : words) {
        const auto number = read_whole_number(word);
        if (!number) return "must be whole numbers, such as 0,1";
        value.push_back(*number);
    }
    return std::nullopt;
}

namespace {

template <class Json>
Rule normalize_json(const std::string& text, std::string& value) {
    const auto content = parse_json<Json>(text);
    if (!content) return "must be JSON, such as {\"a\": 1}";
    if (const std::string name = repeated_name(text); !name.empty())
        return format_text("has \"{}\" twice in one mapping; leave one of them out", name);
    value = content.value().dump();
    return std::nullopt;
}

}  // namespace

Rule read_json(const std::string& text, std::string& value, KeyOrder order) {
    value.clear();
    if (is_null(text)) return std::nullopt;
    return order == KeyOrder::sorted ? normalize_json<nlohmann::json>(text, value)
                                     : normalize_json<nlohmann::ordered_json>(text, value);
}

std::string write_value(bool value) { return value ? "true" : "false"; }
std::string write_value(int64_t value) { return std::to_string(value); }
std::string write_value(double value) { return shortest(value); }
std::string write_value(const std::string& value) { return value.empty() ? "null" : value; }
std::string write_value(const std::vector<std::string>& value) {
    return nlohmann::json(value).dump();
}
std::string write_value(const std::vector<int64_t>& value) { return nlohmann::json(value).dump(); }

bool same_meaning(Shape shape, const std::string& a, const std::string& b) {
    if (is_null(a) || is_null(b)) return is_null(a) && is_null(b);
    switch (shape) {
        case Shape::boolean: {
            const auto x = read_boolean(a);
            return x && x == read_boolean(b);
        }
        case Shape::integer:
        case Shape::number: {
            const auto x = read_number(a);
            return x && x == read_number(b);
        }
        case Shape::list: {
            std::vector<std::string> x;
            std::vector<std::string> y;
            return !read_value(a, x) && !read_value(b, y) && x == y;
        }
        case Shape::json: {
            const auto x = parse_json<nlohmann::json>(a);
            const auto y = parse_json<nlohmann::json>(b);
            return x && y && x.value() == y.value();
        }
        case Shape::word: break;
    }
    return lower_case(trim(a)) == lower_case(trim(b));
}

std::string one_of(const std::vector<std::string>& names) {
    std::string rule = "must be one of ";
    for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) rule += i + 1 == names.size() ? " or " : ", ";
        rule += names[i];
    }
    return rule;
}

std::string lower_with_underscores(std::string_view text) {
    std::string lower = lower_case(trim(text));
    for (char& c : lower)
        if (c == '-') c = '_';
    return lower;
}

}  // namespace ringshard::config
