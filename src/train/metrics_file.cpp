#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

using nlohmann::ordered_json;

MetricsFile::MetricsFile(checkpoint::Claim claim)
    : file_(claim.output_dir / "metrics.jsonl"), claim_(std::move(claim)) {}

namespace {

// Lines without an attempt are not ours: they stay.
bool is_void(const ordered_json& line, const checkpoint::Attempts& attempts) {
    if (!line.is_object()) return false;
    const ordered_json attempt = line.value("attempt", ordered_json());
    const ordered_json step = line.value("step", ordered_json());
    return attempt.is_number_integer() && step.is_number_integer() &&
           attempts.is_void(attempt.get<int64_t>(), step.get<int64_t>());
}

// Numbers that are none become null, as JSON has it.
std::string to_text(const MetricsLine& line) {
    ordered_json object = ordered_json::object();
    for (const auto& [name, value] : line)
        std::visit([&](auto number) { object[name] = number; }, value);
    return object.dump();
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

// Every line that can be read and is not void.
template <class Use>
void for_valid_lines(const std::string& content, const std::filesystem::path& output_dir, Use use) {
    const checkpoint::Attempts attempts(output_dir);
    for (const std::string& line : split(content, '\n')) {
        const ordered_json read = ordered_json::parse(line, nullptr, false);
        if (!read.is_discarded() && !is_void(read, attempts)) use(line, read);
    }
}

}  // namespace

std::optional<Failure> MetricsFile::clean() const {
    const auto content = read_file(file_);
    if (!content) return std::nullopt;
    std::string kept;
    for_valid_lines(*content, claim_.output_dir,
                    [&](const std::string& line, const ordered_json&) { kept += line + "\n"; });
    if (kept == *content) return std::nullopt;
    return write_file_atomically(file_, kept);
}

std::optional<Failure> MetricsFile::write_kept() {
    while (!kept_.empty()) {
        // A line that was cut short before is none: the next one begins on a line of its own.
        const std::string separator = is_cut_short_ ? "\n" : "";
        if (auto failure = append_line(file_, separator + kept_.front())) {
            is_cut_short_ = true;
            return failure;
        }
        is_cut_short_ = false;
        kept_.erase(kept_.begin());
    }
    return std::nullopt;
}

MetricsFile::Appended MetricsFile::append(MetricsLine line) {
    if (auto failure = checkpoint::check_newest(claim_)) return {failure, {}};
    line.emplace_back("attempt", claim_.attempt);
    const bool was_told = !kept_.empty();
    kept_.push_back(to_text(line));
    const auto failure = write_kept();
    if (!failure || was_told) return {};
    return {{}, failure->message + "; its lines are kept until the disk takes them"};
}

std::vector<MetricsLine> MetricsFile::lines() const {
    std::vector<MetricsLine> all;
    const std::string content = read_file(file_).value_or("") + "\n" + join(kept_, "\n");
    for_valid_lines(content, claim_.output_dir, [&](const std::string&, const ordered_json& read) {
        if (read.is_object()) all.push_back(from_json(read));
    });
    return all;
}

}  // namespace ringshard::train
