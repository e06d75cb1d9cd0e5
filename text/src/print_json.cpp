#include <cmath>

#include "json_quote.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::text {

namespace {

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
    if (const auto* text = value.string()) return append_quoted_json(out, *text, false);
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
            append_quoted_json(out, (*members)[i].first, false);
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
