#include "plan_parts.hpp"

#include <iomanip>
#include <iostream>

#include "ringshard/plan/part_kernels.hpp"

namespace ringshard::cli {

using nlohmann::ordered_json;

ordered_json parts_as_json(const plan::StepTime& time) {
    ordered_json parts = ordered_json::array();
    for (const plan::TimePart& part : time.parts)
        parts.push_back({{"name", part.name},
                         {"sum", part.sum},
                         {"seconds", part.seconds},
                         {"share", part.seconds / time.total},
                         {"hidden_seconds", part.hidden},
                         {"kernels", part.kernels}});
    return parts;
}

ordered_json uncounted_as_json() {
    ordered_json parts = ordered_json::array();
    for (const auto& [part, words] : plan::uncounted_kernels())
        parts.push_back({{"name", part}, {"kernels", words}});
    return parts;
}

void print_parts(const plan::StepTime& time) {
    std::cout << "its parts, in seconds and of the step:\n";
    for (const plan::TimePart& part : time.parts) {
        std::cout << "  " << std::left << std::setw(32) << part.name << std::setw(10)
                  << part.seconds << std::setw(6) << 100 * part.seconds / time.total << " %";
        if (part.hidden > 0) std::cout << ", and " << part.hidden << " s beside the computation";
        std::cout << '\n';
    }
}

}  // namespace ringshard::cli
