#include "ringshard/checkpoint/attempts.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/nesting.hpp"
#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

// "attempt-12" with "attempt-" is 12; nothing for other names, "checkpoint-4.tmp-1" among them.
std::optional<int64_t> number_after(const std::string& name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return std::nullopt;
    const auto number = read_whole_number(std::string_view(name).substr(prefix.size()));
    return number && *number >= 0 ? number : std::nullopt;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : folder_entries(folder, ignored)) names.push_back(entry.filename());
    return names;
}

std::filesystem::path attempt_folder(const std::filesystem::path& output_dir, int64_t attempt) {
    return output_dir / concat("attempt-", attempt);
}

std::optional<int64_t> read_start(const std::filesystem::path& folder) {
    const auto content = read_file(folder / "start.json");
    if (!content) return std::nullopt;
    const json read = is_nested_deeply(*content) ? json() : json::parse(*content, nullptr, false);
    const json step = read.is_object() ? read.value("step", json()) : json();
    return step.is_number_integer() ? std::optional(step.get<int64_t>()) : std::nullopt;
}

}  // namespace

Attempts::Attempts(const std::filesystem::path& output_dir) {
    for (const std::string& name : names_in(output_dir))
        if (const auto number = number_after(name, "attempt-"))
            starts_[*number] = read_start(output_dir / name);
}

bool Attempts::is_void(int64_t attempt, int64_t step) const {
    return std::any_of(starts_.upper_bound(attempt), starts_.end(),
                       [step](const auto& later) { return later.second && *later.second < step; });
}

Expected<int64_t> claim_attempt(const std::filesystem::path& output_dir) {
    std::error_code error;
    std::filesystem::create_directories(output_dir, error);
    if (error)
        return Failure{ExitCode::io, concat("output_dir = ", output_dir.string(),
                                            " cannot be made: ", error.message())};
    for (int64_t number = Attempts(output_dir).newest() + 1;; ++number) {
        if (mkdir(attempt_folder(output_dir, number).c_str(), 0777) == 0) return number;
        if (errno != EEXIST)
            return io_failure(attempt_folder(output_dir, number), "cannot be made");
    }
}

std::optional<Failure> record_start(const std::filesystem::path& output_dir, int64_t attempt,
                                    int64_t step) {
    return write_file_atomically(attempt_folder(output_dir, attempt) / "start.json",
                                 json{{"step", step}}.dump());
}

namespace {

// In the order of AttemptEnd::Kind.
constexpr std::array end_names{"complete", "rewind", "failure"};

}  // namespace

std::optional<Failure> record_end(const std::filesystem::path& output_dir, int64_t attempt,
                                  const AttemptEnd& end) {
    json record{{"ended", end_names.at(static_cast<size_t>(end.kind))}};
    if (end.kind == AttemptEnd::Kind::failure) {
        record["code"] = number(end.failure.code);
        record["message"] = end.failure.message;
    }
    return write_file_atomically(
        attempt_folder(output_dir, attempt) / "end.json",
        record.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

std::optional<AttemptEnd> read_end(const std::filesystem::path& output_dir, int64_t attempt) {
    const auto content = read_file(attempt_folder(output_dir, attempt) / "end.json");
    const json read = json::parse(content.value_or(""), nullptr, false);
    if (!read.is_object() || !read.value("ended", json()).is_string()) return std::nullopt;
    const auto found = std::ranges::find(end_names, read["ended"].get<std::string>());
    if (found == end_names.end()) return std::nullopt;
    AttemptEnd end{static_cast<AttemptEnd::Kind>(found - end_names.begin())};
    if (const json code = read.value("code", json()); code.is_number_integer())
        end.failure.code = static_cast<ExitCode>(code.get<int>());
    if (const json message = read.value("message", json()); message.is_string())
        end.failure.message = message.get<std::string>();
    return end;
}

std::optional<Failure> check_newest(const std::filesystem::path& output_dir, int64_t attempt) {
    const int64_t newest = Attempts(output_dir).newest();
    if (newest <= attempt) return std::nullopt;
    return Failure{ExitCode::superseded, concat(output_dir.string(), ": attempt ", newest,
                                                " of this run has begun, and this is attempt ",
                                                attempt, "; it leaves the run alone")};
}

std::vector<CheckpointEntry> valid_checkpoints(const std::filesystem::path& output_dir,
                                               std::vector<std::string>& warnings) {
    const Attempts attempts(output_dir);
    std::vector<CheckpointEntry> valid;
    for (const std::string& name : names_in(output_dir)) {
        const auto step = number_after(name, "checkpoint-");
        if (!step) continue;
        const auto manifest = read_manifest(output_dir / name);
        if (!manifest)
            warnings.push_back(manifest.failure().message);
        else if (!attempts.is_void(manifest.value().attempt, *step))
            valid.push_back(
                {output_dir / name, *step, manifest.value().attempt, manifest.value().has_moments});
    }
    std::ranges::sort(valid, std::greater<>(), &CheckpointEntry::step);
    return valid;
}

}  // namespace ringshard::checkpoint
