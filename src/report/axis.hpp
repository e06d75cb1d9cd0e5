#pragma once

#include <string>
#include <vector>

namespace ringshard::report {

// A range of values along one side of a chart, with ticks at round numbers.
struct Axis {
    struct Tick {
        double value;
        std::string label;
    };
    double low = 0;
    double high = 1;
    bool is_logarithmic = false;
    std::vector<Tick> ticks;
    std::string unit;  // unit of all labels: "GiB", "ms", "× 10⁻⁵"; empty for 1
    double unit_size = 1;

    double share_of(double value) const;  // 0 at the low end, 1 at the high end
};

enum class Counting { plain, whole, bytes, seconds };

// Returns an axis with ticks 1, 2 or 5 times a power of ten apart (of a unit for bytes and
// seconds), whose ends are ticks.
Axis linear_axis(double low, double high, Counting counting);
// Requires values above 0.
Axis logarithmic_axis(double low, double high);
// Returns an axis from the first step to the last, with exact ends.
Axis step_axis(double first, double last);

}  // namespace ringshard::report
