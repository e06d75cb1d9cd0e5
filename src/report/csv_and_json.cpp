#include <algorithm>

#include "ringshard/base/text.hpp"
#include "ringshard/report/plot.hpp"

namespace ringshard::report {

namespace {

std::string cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

std::string cell_of(const text::Value* value) {
    if (value == nullptr || value->is_null()) return {};
    return cell(value->string() != nullptr ? *value->string() : to_json(*value));
}

}  // namespace

std::string to_csv(const std::vector<MetricsLog>& runs) {
    std::vector<std::string> keys;  // in order of first appearance
    for (const MetricsLog& run : runs)
        for (const auto& [number, step] : run.steps)
            for (const auto& [key, value] : *step.object())
                if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    std::vector<std::string> heads;
    if (runs.size() > 1) heads.emplace_back("run");
    for (const std::string& key : keys) heads.push_back(cell(key));
    std::string csv = join(heads, ",") + "\n";
    for (const MetricsLog& run : runs) {
        for (const auto& [number, step] : run.steps) {
            std::vector<std::string> cells;
            if (runs.size() > 1) cells.push_back(cell(run.name));
            for (const std::string& key : keys) cells.push_back(cell_of(step.find(key)));
            csv += join(cells, ",") + "\n";
        }
    }
    return csv;
}

std::string to_json(const std::vector<MetricsLog>& runs) {
    std::vector<std::string> objects;
    for (const MetricsLog& run : runs) {
        std::vector<std::string> steps;
        for (const auto& [number, step] : run.steps) steps.push_back(text::to_json(step));
        objects.push_back(format_text("{{\"name\": {}, \"steps\": [\n{}\n]}}",
                                      text::to_json(text::Value(run.name)), join(steps, ",\n")));
    }
    return format_text("{{\"runs\": [\n{}\n]}}\n", join(objects, ",\n"));
}

}  // namespace ringshard::report
