#include <cmath>
#include <sstream>

#include "printing.hpp"
#include "run.hpp"
#include "unicode/python_characters.hpp"

// Formatting: 'a %s' % b and 'a {}'.format(b).
namespace ringshard::text::jinja {

namespace {

// One conversion after a percent sign.
struct Conversion {
    bool left = false, plus = false, space = false, zero = false, alternate = false;
    int64_t width = 0;
    int64_t precision = -1;
    char type = 0;
};

class PercentFormat {
public:
    PercentFormat(Run& run, std::string_view format, const Datum& values)
        : run_(run), rest_(format), values_(values) {}

    std::string make() {
        std::string out;
        while (!rest_.empty()) {
            const size_t percent = std::min(rest_.find('%'), rest_.size());
            out += rest_.substr(0, percent);
            rest_.remove_prefix(percent);
            if (rest_.empty()) break;
            rest_.remove_prefix(1);
            one(out);
            run_.check_size(out.size(), 1);
        }
        const size_t given = values_.is(Kind::tuple) ? values_.items().size() : 1;
        if (used_ < given && !takes_any()) fail("not all values are used by the format");
        return out;
    }

private:
    // Python accepts an unused argument if it is a mapping.
    bool takes_any() const {
        return values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) ||
               values_.is(Kind::undefined);
    }

    char take() {
        if (rest_.empty()) fail("the format ends after '%'");
        const char c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }

    Datum next_value() {
        if (!values_.is(Kind::tuple)) {
            if (used_++ > 0) fail("there are too few values for the format");
            return values_;
        }
        if (used_ >= values_.items().size()) fail("there are too few values for the format");
        return values_.items()[used_++];
    }

    int64_t number() {
        if (rest_.starts_with('*')) {
            take();
            const Datum value = next_value();
            if (!value.is_whole()) fail("'*' in a format needs a whole number");
            return value.integer();
        }
        int64_t value = 0;
        while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
            value = value * 10 + (take() - '0');
            if (value > 10'000) fail("a width of more than 10000 in a format");
        }
        return value;
    }

    std::optional<Datum> named_value() {
        if (!rest_.starts_with('(')) return std::nullopt;
        int open = 1;
        size_t end = 1;
        for (; end < rest_.size() && open > 0; ++end)
            open += rest_[end] == '(' ? 1 : rest_[end] == ')' ? -1 : 0;
        if (open > 0) fail("')' is missing in the format");
        if (!values_.is(Kind::dict)) fail("the format needs a dict");
        const std::string_view name = rest_.substr(1, end - 2);
        rest_.remove_prefix(end);
        by_name_ = true;
        const Datum* value = values_.as<Dict>().find(name);
        if (value == nullptr) fail("the dict has no '{}' for the format", name);
        return *value;
    }

    void one(std::string& out) {
        Conversion how;
        const std::optional<Datum> named = named_value();
        for (bool flag = true; flag && !rest_.empty();) {
            switch (rest_.front()) {
                case '-': how.left = true; break;
                case '+': how.plus = true; break;
                case ' ': how.space = true; break;
                case '0': how.zero = true; break;
                case '#': how.alternate = true; break;
                default: flag = false;
            }
            if (flag) take();
        }
        how.width = number();
        if (how.width < 0) {
            how.left = true;
            how.width = how.width < -10'000 ? 10'001 : -how.width;
        }
        if (how.width > 10'000) fail("a width of more than 10000 in a format");
        if (rest_.starts_with('.')) {
            take();
            how.precision = std::clamp<int64_t>(number(), 0, 10'000);
        }
        while (!rest_.empty() &&
               (rest_.front() == 'l' || rest_.front() == 'h' || rest_.front() == 'L'))
            take();
        how.type = take();
        if (how.type == '%') {
            out += '%';
            return;
        }
        put(out, how, named ? *named : next_value());
    }

    void put(std::string& out, const Conversion& how, const Datum& value) {
        static constexpr std::string_view wholes = "diuxXoc";
        static constexpr std::string_view reals = "eEfFgG";
        std::string sign;
        std::string body;
        if (how.type == 's' || how.type == 'r' || how.type == 'a') {
            body = how.type == 's' ? to_text(value) : repr(value);
            if (how.precision >= 0)
                body.resize(byte_of_code_point(body, static_cast<size_t>(how.precision)));
        } else if (how.type == 'c') {
            body = character(value);
        } else if (wholes.find(how.type) != std::string_view::npos) {
            body = whole(how, value, sign);
        } else if (reals.find(how.type) != std::string_view::npos) {
            body = real(how, value, sign);
        } else {
            fail("'%{}' is no format", how.type);
        }
        const auto size = static_cast<int64_t>(sign.size() + count_code_points(body));
        const auto missing = static_cast<size_t>(std::max<int64_t>(how.width - size, 0));
        const bool is_number =
            how.type != 's' && how.type != 'r' && how.type != 'a' && how.type != 'c';
        const bool zeros = how.zero && !how.left && is_number;
        if (!how.left && !zeros) out.append(missing, ' ');
        out += sign;
        if (zeros) out.append(missing, '0');
        out += body;
        if (how.left) out.append(missing, ' ');
    }

    static std::string character(const Datum& value) {
        if (value.is(Kind::text) && count_code_points(value.text()) == 1)
            return std::string(value.text());
        if (!value.is_whole() || value.integer() < 0 || value.integer() > 0x10FFFF)
            fail("%c needs a character");
        std::string text;
        append_code_point(text, static_cast<char32_t>(value.integer()));
        return text;
    }

    static std::string sign_of(bool negative, const Conversion& how) {
        return negative ? "-" : how.plus ? "+" : how.space ? " " : "";
    }

    std::string whole(const Conversion& how, const Datum& value, std::string& sign) {
        const bool decimal = how.type == 'd' || how.type == 'i' || how.type == 'u';
        if (value.is(Kind::undefined)) fail_undefined(value);
        if (!value.is_number() || (value.is(Kind::real) && !decimal))
            fail("%{} needs a whole number, not {}", how.type, type_name(value));
        if (value.is(Kind::real) && !(std::abs(value.real()) < 9e18))
            fail("%{}: the number does not fit into 64 bits", how.type);
        const int64_t number =
            value.is(Kind::real) ? static_cast<int64_t>(value.real()) : value.integer();
        sign = sign_of(number < 0, how);
        const auto size =
            number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
        std::ostringstream text;
        if (how.type == 'x' || how.type == 'X') text << std::hex;
        if (how.type == 'o') text << std::oct;
        if (how.type == 'X') text << std::uppercase;
        text << size;
        std::string digits = text.str();
        while (how.precision > static_cast<int64_t>(digits.size())) digits.insert(0, 1, '0');
        if (how.alternate && !decimal) sign += format_text("0{}", how.type);
        return digits;
    }

    std::string real(const Conversion& how, const Datum& value, std::string& sign) {
        if (value.is(Kind::undefined)) fail_undefined(value);
        if (!value.is_number()) fail("%{} needs a number, not {}", how.type, type_name(value));
        const double number = value.real();
        sign = sign_of(std::signbit(number) && !std::isnan(number), how);
        if (std::isnan(number)) return "nan";
        if (std::isinf(number)) return "inf";
        const int precision = how.precision < 0 ? 6 : static_cast<int>(how.precision);
        return real_digits(std::abs(number), how.type, precision, how.alternate);
    }

    Run& run_;
    std::string_view rest_;
    const Datum& values_;
    size_t used_ = 0;
    bool by_name_ = false;
};

class BraceFormat {
public:
    BraceFormat(Run& run, Arguments& arguments) : run_(run), arguments_(arguments) {}

    std::string make(std::string_view format, int depth) {
        if (depth > 2) fail("fields are nested too deep in the format");
        std::string out;
        while (!format.empty()) {
            const char c = format.front();
            if (c != '{' && c != '}') {
                const size_t plain = std::min(format.find_first_of("{}"), format.size());
                out += format.substr(0, plain);
                format.remove_prefix(plain);
                continue;
            }
            if (format.size() > 1 && format[1] == c) {
                out += c;
                format.remove_prefix(2);
                continue;
            }
            if (c == '}') fail("a single '}' in the format");
            const size_t end = closing(format);
            field(out, format.substr(1, end - 1), depth);
            format.remove_prefix(end + 1);
            run_.check_size(out.size(), 1);
        }
        return out;
    }

private:
    static size_t closing(std::string_view format) {
        int open = 0;
        for (size_t i = 0; i < format.size(); ++i) {
            open += format[i] == '{' ? 1 : format[i] == '}' ? -1 : 0;
            if (open == 0) return i;
        }
        fail("'}' is missing in the format");
    }

    void field(std::string& out, std::string_view inside, int depth) {
        const size_t end = std::min(inside.find_first_of("!:"), inside.size());
        Datum value = value_of(inside.substr(0, end));
        std::string_view rest = inside.substr(end);
        if (rest.starts_with('!')) {
            const char conversion = rest.size() > 1 ? rest[1] : ' ';
            if (conversion != 'r' && conversion != 's' && conversion != 'a')
                fail("'!{}' is no conversion in a format", conversion);
            value = run_.heap.text(conversion == 's' ? to_text(value) : repr(value));
            rest.remove_prefix(std::min<size_t>(2, rest.size()));
            if (!rest.empty() && rest.front() != ':') fail("':' is expected after the conversion");
        }
        if (rest.starts_with(':')) rest.remove_prefix(1);
        out += formatted(run_, value, make(rest, depth + 1));
    }

    Datum value_of(std::string_view name) {
        const size_t end = std::min(name.find_first_of(".["), name.size());
        Datum value = argument(name.substr(0, end));
        for (name.remove_prefix(end); !name.empty();) {
            const bool is_member = name.front() == '.';
            const size_t stop =
                is_member ? std::min(name.find_first_of(".[", 1), name.size()) : name.find(']');
            if (stop == std::string_view::npos) fail("']' is missing in the format");
            const std::string_view part = name.substr(1, stop - 1);
            const bool is_index =
                !is_member && part.find_first_not_of("0123456789") == std::string_view::npos;
            const Datum key = is_index && part.size() < 10 && !part.empty()
                                  ? Datum(static_cast<int64_t>(std::stoll(std::string(part))))
                                  : run_.heap.text(std::string(part));
            value = is_member ? attribute(run_, value, key) : element(run_, value, key);
            name.remove_prefix(is_member ? stop : stop + 1);
        }
        return value;
    }

    Datum argument(std::string_view name) {
        const bool is_index = name.find_first_not_of("0123456789") == std::string_view::npos;
        if (is_index) {
            if (name.size() > 9) fail("the number of a field is too large");
            if (name.empty() ? numbers_ : next_ > 0)
                fail("fields with and without numbers are mixed in the format");
            if (!name.empty()) numbers_ = true;
            const size_t index = name.empty() ? next_++ : std::stoul(std::string(name));
            if (index >= arguments_.positional.size())
                fail("there are too few values for the format");
            return arguments_.positional[index];
        }
        for (const auto& [known, value] : arguments_.named)
            if (known.text() == name) return value;
        fail("there is no value '{}' for the format", name);
    }

    Run& run_;
    Arguments& arguments_;
    size_t next_ = 0;
    bool numbers_ = false;
};

}  // namespace

Datum percent_format(Run& run, std::string_view format, const Datum& values) {
    return run.heap.text(PercentFormat(run, format, values).make());
}

std::string brace_format(Run& run, std::string_view format, Arguments& arguments) {
    return BraceFormat(run, arguments).make(format, 0);
}

}  // namespace ringshard::text::jinja
