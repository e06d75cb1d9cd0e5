#include <cmath>

#include "ringshard/text/value.hpp"

namespace ringshard::text {

namespace {

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
    } else if (const auto* large = value.large()) {
        out += std::to_string(*large);
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

std::string to_json(const Value& value) {
    std::string out;
    print(value, out);
    return out;
}

}  // namespace ringshard::text
