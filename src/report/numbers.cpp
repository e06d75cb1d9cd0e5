#include "numbers.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>

#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

std::string digits(double value, int count) {
    std::ostringstream out;
    out << std::setprecision(count) << value;
    return out.str();
}

std::string two_digits(int64_t number) { return concat(number < 10 ? "0" : "", number); }

}  // namespace

std::string number_text(double value) {
    static constexpr std::array<const char*, 5> prefixes{"", "k", "M", "G", "T"};
    if (value == std::floor(value) && std::abs(value) < 1e5)
        return concat(static_cast<int64_t>(value));
    size_t prefix = 0;
    while (std::abs(value) >= 9999.5 / (prefix == 0 ? 1 : 10) && prefix + 1 < prefixes.size()) {
        value /= 1000;
        ++prefix;
    }
    return digits(value, 4) + prefixes[prefix];
}

std::string duration_text(double seconds) {
    if (seconds <= 0) return "0 s";
    if (seconds < 1e-3) return digits(seconds * 1e6, 3) + " µs";
    if (seconds < 0.9995) return digits(seconds * 1e3, 3) + " ms";
    if (seconds < 59.95) return digits(seconds, 3) + " s";
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    constexpr int64_t minute = 60, hour = 3600, day = 86400;
    if (whole < hour) return format_text("{} min {} s", whole / minute, two_digits(whole % minute));
    if (whole < day)
        return format_text("{} h {} min", whole / hour, two_digits(whole % hour / minute));
    return format_text("{} d {} h", whole / day, two_digits(whole % day / hour));
}

}  // namespace ringshard::report
