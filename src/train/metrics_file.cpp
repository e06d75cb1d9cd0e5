#include "metrics_text.hpp"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "trainer_state.hpp"

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

bool has_results_of(const std::filesystem::path& output_dir, int64_t num_steps) {
    if (!is_state_after(output_dir / state_file(), num_steps)) return false;
    const checkpoint::Attempts attempts(output_dir);
    bool has_end = false;
    std::ifstream lines(output_dir / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
        if (line.find("\"train_runtime\"") == std::string::npos) continue;
        const auto read = json_or_null<ordered_json>(line);
        has_end = has_end || (read.is_object() && read.value("step", ordered_json()) == num_steps &&
                              !is_void(read, attempts));
    }
    return has_end;
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

namespace {

// A step, and the name of the time that its line has: of an evaluation, of the end of the run, or
// none, of the steps before it.
using LineKey = std::pair<int64_t, std::string>;

// Returns nothing for lines that are not in the log_history of trainer_state.json.
std::optional<LineKey> key_of(const ordered_json& line) {
    if (!line.is_object() || line.contains("save_step")) return std::nullopt;
    const ordered_json step = line.value("step", ordered_json());
    if (!step.is_number_integer()) return std::nullopt;
    std::string time;
    for (const auto& [name, value] : line.items())
        if (name.ends_with("_runtime")) time = name;
    return LineKey{step.get<int64_t>(), time};
}

}  // namespace

Expected<std::string> MetricsFile::restore(const std::filesystem::path& state) const {
    const checkpoint::Attempts attempts(claim_.output_dir);
    std::set<LineKey> there;
    for_valid_lines(file_, attempts, [&](const std::string&, const ordered_json& read) {
        if (const auto key = key_of(read)) there.insert(*key);
    });
    std::vector<std::pair<int64_t, std::string>> lost;  // by step, in the order of the state
    size_t num_entries = 0;
    std::optional<int64_t> first_step;
    const bool is_read = for_each_entry(state, [&](const std::string& entry) {
        auto read = json_or_null<ordered_json>(entry);
        const auto key = key_of(read);
        ++num_entries;
        if (key && !first_step) first_step = key->first;
        if (!key || there.contains(*key)) return;
        read["attempt"] = claim_.attempt;
        lost.emplace_back(key->first, read.dump());
    });
    if (!is_read)
        return format_text(
            "{} cannot be read: if {} has lost lines, they do not come back, and the best "
            "evaluation and early stopping go by the others",
            state.string(), file_.string());
    if (lost.empty()) return std::string();
    std::string merged;
    auto next = lost.begin();
    const auto put_lost = [&](int64_t before) {
        for (; next != lost.end() && next->first < before; ++next) merged += next->second + "\n";
    };
    for_valid_lines(file_, attempts, [&](const std::string& line, const ordered_json& read) {
        if (const auto key = key_of(read)) put_lost(key->first);
        merged += line + "\n";
    });
    put_lost(std::numeric_limits<int64_t>::max());
    if (auto failure = write_file_atomically(file_, merged)) return *failure;
    // A run that begins from a checkpoint of another one has lost nothing.
    std::error_code ignored;
    if (!std::filesystem::equivalent(state.parent_path().parent_path(), claim_.output_dir, ignored))
        return std::string();
    std::string warning = format_text(
        "{} lacked {} of the lines up to the checkpoint; they are back, with the numbers that {} "
        "has",
        file_.string(), lost.size(), state.string());
    const bool has_older = !there.empty() && there.begin()->first < *first_step;
    if (num_entries == LogHistory::max_in_checkpoint && !has_older)
        warning += format_text(
            "; it has the newest {} lines: those of steps before {} do not come back, and the best "
            "evaluation and early stopping go by the others",
            num_entries, *first_step);
    return warning;
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
