#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "ringshard/text/value.hpp"

namespace ringshard::text {

namespace dom = simdjson::dom;

struct JsonReader::Parser {
    dom::parser parser;
};

JsonReader::JsonReader() : parser_(std::make_unique<Parser>()) {}
JsonReader::~JsonReader() = default;

namespace {

Value from_dom(const dom::element& element);

Value from_list(const dom::array& array) {
    Value::List items;
    items.reserve(array.size());
    for (const dom::element item : array) items.push_back(from_dom(item));
    return Value(std::move(items));
}

// Of members of one name the last one counts, in the place of the first.
void drop_repeated(Value::Object& members) {
    std::vector<std::string_view> names;
    for (const auto& member : members) names.emplace_back(member.first);
    std::ranges::sort(names);
    if (std::ranges::adjacent_find(names) == names.end()) return;
    Value unique{Value::Object()};
    for (auto& [name, value] : members) unique.set(name, std::move(value));
    members = std::move(*unique.object());
}

Value from_object(const dom::object& object) {
    Value::Object members;
    members.reserve(object.size());
    for (const auto field : object)
        members.emplace_back(std::string(field.key), from_dom(field.value));
    drop_repeated(members);
    return Value(std::move(members));
}

Value from_dom(const dom::element& element) {
    switch (element.type()) {
        case dom::element_type::ARRAY: return from_list(dom::array(element));
        case dom::element_type::OBJECT: return from_object(dom::object(element));
        case dom::element_type::INT64: return Value(int64_t(element));
        case dom::element_type::UINT64: return Value(static_cast<double>(uint64_t(element)));
        case dom::element_type::DOUBLE: return Value(double(element));
        case dom::element_type::STRING: return Value(std::string(std::string_view(element)));
        case dom::element_type::BOOL: return Value(bool(element));
        case dom::element_type::NULL_VALUE: break;
    }
    return {};
}

void print_text(const std::string& text, std::string& out) {
    static constexpr char digits[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        switch (c) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            case '\b': out += "\\b"; break;
            case '\f': out += "\\f"; break;
            default:
                if (static_cast<unsigned char>(c) >= 0x20) {
                    out += c;
                } else {
                    out += "\\u00";
                    out += digits[static_cast<unsigned char>(c) >> 4U];
                    out += digits[static_cast<unsigned char>(c) & 15U];
                }
        }
    }
    out += '"';
}

void print_real(double number, std::string& out) {
    if (!std::isfinite(number)) {
        out += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
        return;
    }
    const std::string digits = shortest(number);
    out += digits;
    if (digits.find_first_of(".e") == std::string::npos) out += ".0";
}

void print(const Value& value, std::string& out) {
    if (const auto* text = value.string()) return print_text(*text, out);
    if (const auto* truth = value.truth()) {
        out += *truth ? "true" : "false";
    } else if (const auto* integer = value.integer()) {
        out += std::to_string(*integer);
    } else if (const auto* real = value.real()) {
        print_real(*real, out);
    } else if (const auto* items = value.list()) {
        out += '[';
        for (size_t i = 0; i < items->size(); ++i) {
            if (i > 0) out += ", ";
            print((*items)[i], out);
        }
        out += ']';
    } else if (const auto* members = value.object()) {
        out += '{';
        for (size_t i = 0; i < members->size(); ++i) {
            if (i > 0) out += ", ";
            print_text((*members)[i].first, out);
            out += ": ";
            print((*members)[i].second, out);
        }
        out += '}';
    } else {
        out += "null";
    }
}

}  // namespace

Expected<Value> JsonReader::read(std::string_view json) {
    dom::element root;
    if (const auto error = parser_->parser.parse(json.data(), json.size()).get(root))
        return Failure{ExitCode::bad_data, simdjson::error_message(error)};
    return from_dom(root);
}

std::string to_json(const Value& value) {
    std::string out;
    print(value, out);
    return out;
}

}  // namespace ringshard::text
