#include <algorithm>
#include <charconv>
#include <cmath>

#include "compare.hpp"
#include "filters.hpp"
#include "printing.hpp"
#include "unicode/python_characters.hpp"

// Filters on numbers and on values of any kind.
namespace ringshard::text::jinja {

namespace {

Datum default_filter(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "default", {"default_value", "boolean"});
    static constexpr std::string_view empty("", 0);
    const bool missing =
        input.is(Kind::undefined) || (bound.truth_or(1, false) && !truth_of(input));
    return missing ? bound.value_or(0, Datum(empty)) : input;
}

Datum abs_filter(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "abs", {});
    if (input.is(Kind::undefined)) fail_undefined(input);
    if (input.is(Kind::real)) return Datum(std::abs(input.real()));
    if (!input.is_whole()) fail("abs of a {}", type_name(input));
    if (input.integer() == INT64_MIN) fail("the number does not fit into 64 bits");
    return Datum(std::abs(input.integer()));
}

// Python's int(text, base); nothing if the text is not a number.
std::optional<int64_t> whole_of(std::string_view text, int64_t base) {
    std::string plain(strip(text));
    const bool negative = plain.starts_with('-');
    if (negative || plain.starts_with('+')) plain.erase(0, 1);
    if (plain.size() > 2 && plain[0] == '0') {
        const char marker = static_cast<char>(plain[1] | 0x20);
        const int64_t marked = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 0;
        if (marked != 0 && (base == marked || base == 0)) {
            plain.erase(0, plain[2] == '_' ? 3 : 2);
            base = marked;
        }
    }
    if (base == 0) base = 10;
    if (plain.empty() || plain.front() == '_' || plain.back() == '_' ||
        plain.find("__") != std::string::npos)
        return std::nullopt;
    std::erase(plain, '_');
    if (plain.front() == '-' || plain.front() == '+') return std::nullopt;
    if (negative) plain.insert(0, 1, '-');
    int64_t number = 0;
    const auto parsed =
        std::from_chars(plain.data(), plain.data() + plain.size(), number, static_cast<int>(base));
    if (parsed.ec == std::errc::result_out_of_range)
        fail("int: the number {} does not fit into 64 bits", text);
    if (parsed.ec != std::errc() || parsed.ptr != plain.data() + plain.size()) return std::nullopt;
    return number;
}

std::optional<double> real_of(std::string_view text) {
    std::string plain = lower_case(strip(text));
    const bool negative = plain.starts_with('-');
    if (negative || plain.starts_with('+')) plain.erase(0, 1);
    if (plain == "inf" || plain == "infinity") return negative ? -INFINITY : INFINITY;
    if (plain == "nan") return NAN;
    if (plain.empty() || plain.front() == '_' || plain.back() == '_') return std::nullopt;
    for (size_t at = plain.find('_'); at != std::string::npos; at = plain.find('_', at)) {
        if (std::isdigit(static_cast<unsigned char>(plain[at - 1])) == 0 ||
            std::isdigit(static_cast<unsigned char>(plain[at + 1])) == 0)
            return std::nullopt;
        plain.erase(at, 1);
    }
    if (plain.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
    if (plain.front() == '+' || plain.front() == '-') return std::nullopt;
    double number = 0;
    const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), number);
    if (parsed.ptr != plain.data() + plain.size()) return std::nullopt;
    if (parsed.ec == std::errc::result_out_of_range) number = std::strtod(plain.c_str(), nullptr);
    return negative ? -number : number;
}

std::optional<int64_t> truncated(double number) {
    if (!std::isfinite(number)) return std::nullopt;
    if (!(std::abs(number) < 9.2e18)) fail("int: the number does not fit into 64 bits");
    return static_cast<int64_t>(number);
}

Datum int_filter(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "int", {"default", "base"});
    const Datum otherwise = bound.value_or(0, Datum(int64_t{0}));
    const int64_t base = bound.integer_or(1, 10);
    if (input.is(Kind::undefined)) fail_undefined(input);
    if (input.is_whole()) return Datum(input.integer());
    std::optional<int64_t> number;
    if (input.is(Kind::real)) {
        if (std::isinf(input.real())) fail("int of infinity");
        number = truncated(input.real());
    } else if (input.is(Kind::text)) {
        if (base != 0 && (base < 2 || base > 36)) return otherwise;
        number = whole_of(input.text(), base);
        if (!number) {
            const std::optional<double> real = real_of(input.text());
            if (real && std::isinf(*real)) fail("int of infinity");
            if (real) number = truncated(*real);
        }
    }
    return number ? Datum(*number) : otherwise;
}

Datum float_filter(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "float", {"default"});
    const Datum otherwise = bound.value_or(0, Datum(0.0));
    if (input.is(Kind::undefined)) fail_undefined(input);
    if (input.is_number()) return Datum(input.real());
    const std::optional<double> number =
        input.is(Kind::text) ? real_of(input.text()) : std::nullopt;
    return number ? Datum(*number) : otherwise;
}

// Rounds to the nearest decimal, ties to even, by the exact decimal digits of the double.
double rounded(double number, int precision) {
    if (!std::isfinite(number) || precision > 300) return number;
    if (precision < 0) {
        const double power = std::pow(10.0, -precision);
        return std::isfinite(power) ? std::nearbyint(number / power) * power : 0 * number;
    }
    return std::strtod(real_digits(number, 'f', precision, false).c_str(), nullptr);
}

Datum round_filter(Run&, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "round", {"precision", "method"});
    const int64_t precision = bound.integer_or(0, 0);
    const std::string_view method = bound.text_or(1, "common");
    if (method != "common" && method != "ceil" && method != "floor")
        fail("round: the method is common, ceil or floor, not '{}'", method);
    if (input.is(Kind::undefined)) fail_undefined(input);
    if (!input.is_number()) fail("round of a {}", type_name(input));
    if (std::abs(precision) > 300) fail("round: a precision of {}", precision);
    const auto digits = static_cast<int>(precision);
    if (method == "common") {
        // A whole number stays a whole number.
        if (input.is_whole() && digits >= 0) return Datum(input.integer());
        if (input.is_whole()) return Datum(static_cast<int64_t>(rounded(input.real(), digits)));
        return Datum(rounded(input.real(), digits));
    }
    const double power = std::pow(10.0, digits);
    const double scaled = input.real() * power;
    if (!std::isfinite(scaled)) fail("round: the number is too large");
    return Datum((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / power);
}

Datum filesizeformat_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "filesizeformat", {"binary"});
    const bool binary = bound.truth_or(0, false);
    std::optional<double> given;
    if (input.is_number()) given = input.real();
    if (input.is(Kind::text)) given = real_of(input.text());
    if (!given) fail("filesizeformat of a {}", type_name(input));
    const double base = binary ? 1024 : 1000;
    if (*given == 1) return Datum(std::string_view("1 Byte"));
    if (*given < base) return run.heap.text(format_text("{} Bytes", static_cast<int64_t>(*given)));
    static constexpr std::string_view prefixes = "kMGTPEZY";
    double unit = base;
    size_t prefix = 0;
    while (prefix + 1 < prefixes.size() && *given >= unit * base) {
        unit *= base;
        ++prefix;
    }
    const char letter = binary && prefix == 0 ? 'K' : prefixes[prefix];
    return run.heap.text(format_text("{} {}{}", real_digits(*given / unit, 'f', 1, false), letter,
                                     binary ? "iB" : "B"));
}

Datum tojson_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.ascii = bound.truth_or(0, false);
    style.sorted = bound.truth_or(3, false);
    if (bound.has(1) && !bound[1].is(Kind::none)) {
        style.indented = true;
        style.item_separator = ",";
        if (bound[1].is(Kind::text)) {
            style.indent = bound[1].text();
        } else {
            const int64_t width = std::clamp<int64_t>(bound.integer_or(1, 0), 0, 1000);
            style.indent.assign(static_cast<size_t>(width), ' ');
        }
    }
    if (bound.has(2) && !bound[2].is(Kind::none)) {
        const std::vector<Datum> separators = all_of(run, bound[2]);
        if (separators.size() != 2 || !separators[0].is(Kind::text) ||
            !separators[1].is(Kind::text))
            fail("tojson: the separators are two texts, as in (', ', ': ')");
        style.item_separator = separators[0].text();
        style.member_separator = separators[1].text();
    }
    std::string text = json(input, style);
    run.step(1 + text.size() / 64);
    return run.heap.text(std::move(text));
}

Datum attr_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "attr", {"name"}, 1);
    if (!bound[0].is(Kind::text)) fail("attr needs a name, not a {}", type_name(bound[0]));
    if (input.is(Kind::undefined)) fail_undefined(input);
    // Members of a dict are not attributes.
    if (input.is(Kind::dict) && find_method(Kind::dict, bound[0].text()) == nullptr)
        return Datum::undefined(Lack::attribute, bound[0], input.kind());
    return attribute(run, input, bound[0]);
}

Datum pprint_filter(Run& run, const Datum& input, Arguments& arguments) {
    const Bound bound(arguments, "pprint", {});
    std::string text = repr(input);
    if (count_code_points(text) > 80 && !input.is_number())
        fail("pprint of values that take more than one line is not supported");
    return run.heap.text(std::move(text));
}

constexpr std::array<FilterEntry, 10> all_value_filters{{
    {"default", default_filter},
    {"d", default_filter},
    {"abs", abs_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"round", round_filter},
    {"filesizeformat", filesizeformat_filter},
    {"tojson", tojson_filter},
    {"attr", attr_filter},
    {"pprint", pprint_filter},
}};

}  // namespace

std::span<const FilterEntry> value_filters() { return all_value_filters; }

}  // namespace ringshard::text::jinja
