#include "ringshard/checkpoint/attempts.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

std::filesystem::path attempt_folder(const std::filesystem::path& output_dir, int64_t attempt) {
    return output_dir / format_text("attempt-{}", attempt);
}

namespace {

// Returns no names if the folder does not exist.
Expected<std::vector<std::string>> names_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : folder_entries(folder, error)) names.push_back(entry.filename());
    if (!error || error == std::errc::no_such_file_or_directory) return names;
    return Failure{ExitCode::io,
                   format_text("{} cannot be read: {}", folder.string(), error.message())};
}

const char* const owner = "owner";  // the file with the token, and a line for the next attempt

// Returns true if the path does not exist, false if it is unreachable.
bool is_gone(const std::filesystem::path& path) {
    struct stat ignored {};
    return stat(path.c_str(), &ignored) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

Expected<std::optional<int64_t>> read_start(const std::filesystem::path& folder) {
    const auto file = folder / "start.json";
    if (is_gone(file)) return std::optional<int64_t>();
    const auto content = read_file(file);
    if (!content) return io_failure(file, "cannot be read");
    const json read = json_or_null<json>(*content);
    const json step = read.is_object() ? read.value("step", json()) : json();
    return step.is_number_integer() ? std::optional(step.get<int64_t>()) : std::nullopt;
}

}  // namespace

Expected<int64_t> newest_attempt(const std::filesystem::path& output_dir) {
    const auto names = names_in(output_dir);
    if (!names) return names.failure();
    int64_t newest = 0;
    for (const std::string& name : names.value())
        newest = std::max(newest, number_in_name(name, "attempt-").value_or(0));
    return newest;
}

Expected<Attempts> Attempts::read(const std::filesystem::path& output_dir) {
    const auto names = names_in(output_dir);
    if (!names) return names.failure();
    Attempts attempts;
    for (const std::string& name : names.value()) {
        const auto number = number_in_name(name, "attempt-");
        if (!number) continue;
        const auto start = read_start(output_dir / name);
        if (!start) return start.failure();
        attempts.starts_[*number] = start.value();
    }
    return attempts;
}

Attempts::Attempts(const std::filesystem::path& output_dir) {
    std::error_code ignored;
    for (const std::filesystem::path& entry : folder_entries(output_dir, ignored))
        if (const auto number = number_in_name(entry.filename().string(), "attempt-")) {
            const auto start = read_start(entry);
            starts_[*number] = start ? start.value() : std::nullopt;
        }
}

bool Attempts::is_void(int64_t attempt, int64_t step) const {
    return std::any_of(starts_.upper_bound(attempt), starts_.end(),
                       [step](const auto& later) { return later.second && *later.second < step; });
}

namespace {

std::string random_token() {
    std::random_device random;
    std::ostringstream token;
    for (int i = 0; i < 4; ++i) token << std::hex << std::setfill('0') << std::setw(8) << random();
    return token.str();
}

Failure superseded(const std::filesystem::path& output_dir, int64_t newer, int64_t mine) {
    return {ExitCode::superseded,
            newer > mine
                ? format_text("{}: attempt {} of this run has begun, and this is attempt {}; it "
                              "leaves the run alone",
                              output_dir.string(), newer, mine)
                : format_text(
                      "{}: another run has begun in the place of this one, which leaves it alone",
                      output_dir.string())};
}

// Adds a line to the owner file of the attempt before, so that its processes notice this attempt
// wherever they run: an NFS client may answer from its cache for a minute whether a folder exists,
// but asks the server about a file that it opens. Does nothing for the first attempt.
void tell_attempt_before(const Claim& claim) {
    const auto file = attempt_folder(claim.output_dir, claim.attempt - 1) / owner;
    if (file_exists(file))
        static_cast<void>(append_line(file, format_text("followed by attempt {}", claim.attempt)));
}

}  // namespace

Expected<std::optional<Claim>> claim_attempt(const std::filesystem::path& output_dir,
                                             int64_t attempt) {
    const auto folder = attempt_folder(output_dir, attempt);
    if (mkdir(folder.c_str(), 0777) != 0) {
        if (errno == EEXIST) return std::optional<Claim>();
        return io_failure(folder, "cannot be made");
    }
    Claim claim{output_dir, attempt, random_token()};
    if (auto failure = write_file_atomically(folder / owner, claim.token)) return *failure;
    tell_attempt_before(claim);
    return std::optional(std::move(claim));
}

Expected<Claim> claim_next(const Claim& before) {
    if (auto failure = check_newest(before)) return *failure;
    auto claimed = claim_attempt(before.output_dir, before.attempt + 1);
    if (!claimed) return claimed.failure();
    if (!claimed.value()) return superseded(before.output_dir, before.attempt + 1, before.attempt);
    return *std::move(claimed).value();
}

std::optional<Failure> record_start(const std::filesystem::path& output_dir, int64_t attempt,
                                    int64_t step) {
    return write_file_atomically(attempt_folder(output_dir, attempt) / "start.json",
                                 json{{"step", step}}.dump());
}

namespace {

// Indexed by AttemptEnd::Kind.
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
    const json read = json_or_null<json>(content.value_or(""));
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

std::optional<Failure> check_newest(const Claim& mine) {
    const auto folder = attempt_folder(mine.output_dir, mine.attempt);
    const auto content = read_file(folder / owner);
    const bool has_next = file_exists(attempt_folder(mine.output_dir, mine.attempt + 1));
    if (content == mine.token && !has_next) return std::nullopt;
    int64_t newest = Attempts(mine.output_dir).newest();
    // The next attempt adds a line after the token, even if no listing shows its folder yet.
    const bool is_mine = content && content->starts_with(mine.token);
    if (is_mine && content != mine.token) newest = std::max(newest, mine.attempt + 1);
    const bool is_other_run = content ? !is_mine : newest > 0 && is_gone(folder);
    if (newest <= mine.attempt && !is_other_run) return std::nullopt;
    return superseded(mine.output_dir, newest, mine.attempt);
}

Expected<std::vector<CheckpointEntry>> valid_checkpoints(const std::filesystem::path& output_dir,
                                                         std::vector<std::string>& warnings) {
    const auto attempts = Attempts::read(output_dir);
    if (!attempts) return attempts.failure();
    const auto names = names_in(output_dir);
    if (!names) return names.failure();
    std::vector<CheckpointEntry> valid;
    for (const std::string& name : names.value()) {
        const auto step = number_in_name(name, "checkpoint-");
        if (!step) continue;
        const auto info = read_info(output_dir / name);
        if (!info)
            warnings.push_back(info.failure().message);
        else if (!attempts.value().is_void(info.value().attempt, *step))
            valid.push_back(
                {output_dir / name, *step, info.value().attempt, info.value().has_moments});
    }
    std::ranges::sort(valid, std::greater<>(), &CheckpointEntry::step);
    return valid;
}

}  // namespace ringshard::checkpoint
