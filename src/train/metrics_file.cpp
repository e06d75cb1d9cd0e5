#include "metrics_text.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"

namespace ringshard::train {

using nlohmann::ordered_json;

MetricsFile::MetricsFile(checkpoint::Claim claim, const std::filesystem::path& folder)
    : file_(folder / "metrics.jsonl"), claim_(std::move(claim)) {}

namespace {

// Lines without an attempt are not ours: they stay.
bool is_void(const ordered_json& line, const checkpoint::Attempts& attempts) {
    if (!line.is_object()) return false;
    const ordered_json attempt = line.value("attempt", ordered_json());
    const ordered_json step = line.value("step", ordered_json());
    return attempt.is_number_integer() && step.is_number_integer() &&
           attempts.is_void(attempt.get<int64_t>(), step.get<int64_t>());
}

ordered_json to_json(const MetricsLine& line) {
    ordered_json object = ordered_json::object();
    for (const auto& [name, value] : line)
        std::visit([&](auto number) { object[name] = number; }, value);
    return object;
}

// Formats a line as JSON; NaN and infinity become null.
std::string to_text(const MetricsLine& line, const std::vector<TextSample>& samples) {
    ordered_json object = to_json(line);
    for (const TextSample& sample : samples)
        object["eval_samples"].push_back(ordered_json{{"prompt", sample.prompt},
                                                      {"text", sample.text},
                                                      {"num_tokens", sample.num_tokens},
                                                      {"has_ended", sample.has_ended}});
    // A text may be cut inside a character.
    return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

MetricsLine from_json(const ordered_json& object) {
    MetricsLine line;
    for (const auto& [name, value] : object.items()) {
        if (value.is_number_integer())
            line.emplace_back(name, value.get<int64_t>());
        else if (value.is_number())
            line.emplace_back(name, value.get<double>());
    }
    return line;
}

// Shows every line that can be read and is not void, one at a time: a file of a week is not held
// in memory. Returns whether that is the whole file.
template <class Use>
bool for_valid_lines(const std::filesystem::path& file, const checkpoint::Attempts& attempts,
                     Use use) {
    std::ifstream lines(file);
    bool is_whole = true;
    for (std::string line; std::getline(lines, line);) {
        const auto read = parse_json<ordered_json>(line);
        const bool is_valid = read && !is_void(read.value(), attempts);
        if (is_valid) use(line, read.value());
        is_whole = is_whole && is_valid && !lines.eof();  // the last one ends with a newline, too
    }
    return is_whole;
}

}  // namespace

std::string fields_of(const MetricsLine& line) {
    const std::string object = to_json(line).dump();
    return object.substr(1, object.size() - 2);
}

std::string json_text(const std::string& text) {
    return ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::optional<Failure> MetricsFile::clean(
    const std::function<void(const MetricsLine&)>& show) const {
    const checkpoint::Attempts attempts(claim_.output_dir);
    const bool is_clean =
        for_valid_lines(file_, attempts, [&](const std::string&, const ordered_json& read) {
            if (read.is_object()) show(from_json(read));
        });
    if (is_clean) return std::nullopt;
    std::string kept;
    for_valid_lines(file_, attempts,
                    [&](const std::string& line, const ordered_json&) { kept += line + "\n"; });
    return write_file_atomically(file_, kept);
}

std::optional<Failure> MetricsFile::write_kept() {
    while (!kept_.empty()) {
        if (auto failure = append_line(file_, kept_.front())) return failure;
        kept_.erase(kept_.begin());
    }
    return std::nullopt;
}

MetricsFile::Appended MetricsFile::append(MetricsLine line,
                                          const std::vector<TextSample>& samples) {
    if (auto failure = checkpoint::check_newest(claim_)) return {failure, {}};
    line.emplace_back("attempt", claim_.attempt);
    const bool was_told = !kept_.empty();
    kept_.push_back(to_text(line, samples));
    const auto failure = write_kept();
    if (!failure || was_told) return {};
    return {{}, failure->message + "; its lines are kept until the disk takes them"};
}

}  // namespace ringshard::train
