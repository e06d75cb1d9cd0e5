#pragma once

#include <string>
#include <vector>

namespace ringshard::report {

// A range of values along one side of a chart, with round numbers on it.
struct Axis {
    struct Tick {
        double value;
        std::string label;
    };
    double low = 0;
    double high = 1;
    bool is_logarithmic = false;
    std::vector<Tick> ticks;
    std::string unit;  // what all labels are multiples of: "GiB", "ms", "× 10⁻⁵"; empty for ones
    double unit_size = 1;

    double share_of(double value) const;  // 0 at the low end, 1 at the high one
};

enum class Counting { plain, whole, bytes, seconds };

// Ticks are 1, 2 or 5 times a power of ten apart (of bytes and seconds: of a unit), and the ends
// are ticks.
Axis linear_axis(double low, double high, Counting counting);
// For values above 0.
Axis logarithmic_axis(double low, double high);
// From the first step to the last: the ends are where they are.
Axis step_axis(double first, double last);

}  // namespace ringshard::report
