#include "ringshard/report/metrics_log.hpp"

#include <cmath>
#include <set>

#include "ringshard/base/files.hpp"
#include "ringshard/base/python_numbers.hpp"
#include "ringshard/checkpoint/attempts.hpp"

namespace ringshard::report {

namespace fs = std::filesystem;
using text::Value;

namespace {

std::string as_null(std::string_view) { return "null"; }

const int64_t* integer_in(const Value& line, std::string_view key) {
    const Value* member = line.find(key);
    return member == nullptr ? nullptr : member->integer();
}

void merge(const Value& line, Value& step) {
    for (const auto& [key, value] : *line.object()) step.set(key, value);
}

fs::path folder_of(const fs::path& file) {
    return fs::absolute(file).lexically_normal().parent_path();
}

}  // namespace

std::vector<std::string> MetricsLog::evaluation_losses() const {
    std::set<std::string> keys;
    for (const auto& [step, line] : steps)
        for (const auto& [key, value] : *line.object())
            if (key.starts_with("eval_") && key.ends_with("loss")) keys.insert(key);
    return {keys.begin(), keys.end()};
}

std::optional<double> MetricsLog::number(const Value& step, std::string_view key) {
    const Value* member = step.find(key);
    if (member == nullptr) return std::nullopt;
    if (const int64_t* whole = member->integer()) return static_cast<double>(*whole);
    if (const uint64_t* large = member->large()) return static_cast<double>(*large);
    const double* real = member->real();
    return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

Expected<MetricsLog> read_metrics_log(const fs::path& run, std::vector<std::string>& warnings) {
    if (!file_exists(run))
        return Failure{ExitCode::missing_input,
                       format_text("{}: there is no such run", run.string())};
    const fs::path file = folder_exists(run) ? run / "metrics.jsonl" : run;
    const auto content = read_file(file);
    if (!content)
        return Failure{
            ExitCode::bad_data,
            format_text("{}: has no metrics.jsonl, where a run logs its steps", run.string())};
    const fs::path folder = folder_of(file);
    const checkpoint::Attempts attempts(folder);
    MetricsLog log{folder.filename(), {}};
    int64_t number = 0;
    for (const std::string& line : split(*content, '\n')) {
        ++number;
        if (trim(line).empty()) continue;
        const auto read = text::read_json(replace_python_numbers(line, as_null));
        if (!read || read.value().object() == nullptr) {
            warnings.push_back(format_text("{}:{}: is left out: {}", file.string(), number,
                                           read ? "is no JSON object" : read.failure().message));
            continue;
        }
        const int64_t* step = integer_in(read.value(), "step");
        if (step == nullptr) continue;  // from another program
        const int64_t* attempt = integer_in(read.value(), "attempt");
        if (attempt != nullptr && attempts.is_void(*attempt, *step)) continue;
        merge(read.value(), log.steps.try_emplace(*step, Value::Object()).first->second);
    }
    if (!log.steps.empty()) return log;
    return Failure{ExitCode::bad_data, format_text("{}: holds no step", file.string())};
}

Expected<std::vector<MetricsLog>> read_metrics_logs(const std::vector<fs::path>& runs,
                                                    std::vector<std::string>& warnings) {
    std::vector<MetricsLog> logs;
    std::set<std::string> names;
    for (const fs::path& run : runs) {
        auto log = read_metrics_log(run, warnings);
        if (!log) return log.failure();
        names.insert(log.value().name);
        logs.push_back(std::move(log).value());
    }
    if (names.size() < logs.size())
        for (size_t i = 0; i < logs.size(); ++i) logs[i].name = runs[i].string();
    return logs;
}

}  // namespace ringshard::report
