#include "ringshard/base/text.hpp"
#include "ringshard/report/plot.hpp"

namespace ringshard::report {

std::string to_json(const std::vector<MetricsLog>& runs) {
    std::vector<std::string> objects;
    for (const MetricsLog& run : runs) {
        std::vector<std::string> steps;
        for (const auto& [number, step] : run.steps) steps.push_back(text::to_json(step));
        objects.push_back(concat("{\"name\": ", text::to_json(text::Value(run.name)),
                                 ", \"steps\": [\n", join(steps, ",\n"), "\n]}"));
    }
    return concat("{\"runs\": [\n", join(objects, ",\n"), "\n]}\n");
}

}  // namespace ringshard::report
