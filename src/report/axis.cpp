#include "axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

constexpr int wanted_ticks = 5;

// Returns 1, 2 or 5 times a power of ten that gives about wanted_ticks ticks.
double round_distance(double range) {
    const double rough = range / wanted_ticks;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double digit = rough / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

// Removes binary rounding errors: 0.30000000000000004 becomes 0.3.
std::string clean(double value) {
    const double rounded = std::stod(concat(value));  // six digits
    return shortest(rounded == 0 ? 0 : rounded);
}

std::string with_prefix(double value) {
    static constexpr std::array<const char*, 5> prefixes{"", "k", "M", "G", "T"};
    size_t prefix = 0;
    while (std::abs(value) >= 1000 && prefix + 1 < prefixes.size()) {
        value /= 1000;
        ++prefix;
    }
    return clean(value) + prefixes[prefix];
}

std::string superscript(int number) {
    static constexpr std::array<const char*, 10> digits{"⁰", "¹", "²", "³", "⁴",
                                                        "⁵", "⁶", "⁷", "⁸", "⁹"};
    std::string out = number < 0 ? "⁻" : "";
    for (const char digit : std::to_string(std::abs(number)))
        out += digits[static_cast<size_t>(digit - '0')];
    return out;
}

struct Unit {
    double size = 1;
    std::string name;
};

Unit unit_for(double largest, Counting counting) {
    if (counting == Counting::bytes) {
        static constexpr std::array<const char*, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
        size_t unit = 0;
        while (largest >= 1024 && unit + 1 < names.size()) {
            largest /= 1024;
            ++unit;
        }
        return {std::pow(1024.0, static_cast<double>(unit)), names[unit]};
    }
    if (counting == Counting::seconds) {
        if (largest >= 1 || largest <= 0) return {1, "s"};
        return largest >= 1e-3 ? Unit{1e-3, "ms"} : Unit{1e-6, "µs"};
    }
    if (largest > 0 && largest < 0.01) {
        const int power = static_cast<int>(std::floor(std::log10(largest)));
        return {std::pow(10.0, power), "× 10" + superscript(power)};
    }
    return {};
}

}  // namespace

double Axis::share_of(double value) const {
    if (is_logarithmic) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
}

Axis linear_axis(double low, double high, Counting counting) {
    const Unit unit = unit_for(std::max(std::abs(low), std::abs(high)), counting);
    low /= unit.size;
    high /= unit.size;
    if (!(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))) {  // one value
        const double room = low == 0 ? 1 : std::abs(low) / 10;
        low = low == 0 ? 0 : low - room;
        high += room;
    }
    double distance = round_distance(high - low);
    if (counting == Counting::whole) distance = std::max(1.0, distance);
    const double first = std::floor(low / distance + 1e-9);
    const double last = std::ceil(high / distance - 1e-9);
    Axis axis{
        first * distance * unit.size, last * distance * unit.size, false, {}, unit.name, unit.size};
    for (double tick = first; tick <= last; ++tick)
        axis.ticks.push_back({tick * distance * unit.size, with_prefix(tick * distance)});
    return axis;
}

Axis logarithmic_axis(double low, double high) {
    Axis axis{.low = low, .high = high, .is_logarithmic = true, .ticks = {}, .unit = {}};
    if (!(high / low > 1.0001)) {  // one value
        axis.low = low / 1.1;
        axis.high = high * 1.1;
    }
    // Few powers of ten: ticks at 1, 2, 5 of each; many: at the powers only.
    const bool is_wide = axis.high / axis.low > 1e3;
    for (double power = std::pow(10.0, std::floor(std::log10(axis.low))); power <= axis.high;
         power *= 10)
        for (const double digit : {1.0, 2.0, 5.0})
            if ((digit == 1 || !is_wide) && digit * power >= axis.low * 0.9999 &&
                digit * power <= axis.high * 1.0001)
                axis.ticks.push_back({digit * power, with_prefix(digit * power)});
    if (axis.ticks.size() >= 3) return axis;
    // A range within one decade gets linear ticks.
    axis.ticks.clear();
    for (const Axis::Tick& tick : linear_axis(axis.low, axis.high, Counting::plain).ticks)
        if (tick.value >= axis.low && tick.value <= axis.high) axis.ticks.push_back(tick);
    return axis;
}

Axis step_axis(double first, double last) {
    Axis axis = linear_axis(first, last, Counting::whole);
    if (first == last) return axis;
    axis.low = first;
    axis.high = last;
    std::erase_if(axis.ticks,
                  [&](const Axis::Tick& tick) { return tick.value < first || tick.value > last; });
    return axis;
}

}  // namespace ringshard::report
