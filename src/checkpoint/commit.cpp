#include "commit.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "range_check.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/hash.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/fork.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "write_model.hpp"

namespace ringshard::checkpoint {

namespace {

constexpr std::string_view card_name = "README.md";  // people may edit it

}  // namespace

Commit::Commit(Claim claim, int64_t step)
    : claim_(std::move(claim)),
      step_(step),
      temporary_(claim_.output_dir /
                 format_text("{}.tmp-{}", checkpoint_name(step), claim_.attempt)),
      final_(claim_.output_dir / checkpoint_name(step)) {}

std::optional<Failure> Commit::begin(const std::map<std::string, std::string>& files) {
    if (auto failure = check_newest(claim_)) return failure;
    abandon();  // removes a failed earlier save
    std::error_code error;
    if (!std::filesystem::create_directory(temporary_, error) && error)
        return Failure{ExitCode::io,
                       format_text("{} cannot be made: {}", temporary_.string(), error.message())};
    hashes_.clear();
    for (const auto& [name, content] : files) {
        if (auto failure = write_file_in(temporary_, name, content)) return failure;
        if (name != card_name) hashes_[name] = hash_of(content);
    }
    return std::nullopt;
}

void Commit::abandon() const {
    std::error_code ignored;
    std::filesystem::remove_all(temporary_, ignored);
}

namespace {

constexpr std::string_view superseded_prefix = "superseded-";

// Renames checkpoint-<step>, if it exists, to superseded-<step>-<attempt that wrote it>.
std::optional<Failure> move_aside(const std::filesystem::path& output_dir, int64_t step) {
    const auto folder = output_dir / checkpoint_name(step);
    if (!file_exists(folder)) return std::nullopt;
    const auto there = read_info(folder);
    const int64_t attempt = there ? there.value().attempt : 0;
    for (int64_t copy = 0;; ++copy) {
        const auto aside = output_dir / format_text("{}{}-{}{}", superseded_prefix, step, attempt,
                                                    copy == 0 ? "" : format_text(".{}", copy));
        if (file_exists(aside)) continue;
        if (std::rename(folder.c_str(), aside.c_str()) != 0)
            return io_failure(folder, "cannot be set aside");
        return std::nullopt;
    }
}

}  // namespace

std::optional<Failure> move_later_aside(const std::filesystem::path& output_dir, int64_t step) {
    std::error_code error;
    bool is_any = false;
    for (const std::filesystem::path& entry : folder_entries(output_dir, error)) {
        const auto later = number_in_name(entry.filename().string(), "checkpoint-");
        if (!later || *later <= step) continue;
        if (auto failure = move_aside(output_dir, *later)) return failure;
        is_any = true;
    }
    if (!is_any) return std::nullopt;
    const auto latest = output_dir / "latest";
    if (file_exists(output_dir / checkpoint_name(step)))
        return write_file_atomically(latest, checkpoint_name(step) + "\n");
    std::remove(latest.c_str());
    return std::nullopt;
}

namespace {

// Returns the sizes of all files that the checkpoint needs.
Expected<std::map<std::string, int64_t>> sizes_in(const std::filesystem::path& folder) {
    std::map<std::string, int64_t> sizes;
    std::error_code error;
    for (const std::filesystem::path& entry : folder_entries(folder, error))
        if (!error && !is_copy_of_weights(entry.filename()) && !folder_exists(entry))
            sizes[entry.filename()] =
                static_cast<int64_t>(std::filesystem::file_size(entry, error));
    if (!error) return sizes;
    return Failure{ExitCode::io,
                   format_text("{} cannot be read: {}", folder.string(), error.message())};
}

}  // namespace

std::optional<Failure> Commit::describe(std::vector<WrittenRange> ranges, bool has_moments,
                                        Faults& faults) const {
    const auto file = temporary_ / manifest_name;
    std::set<std::string> files;  // other nodes create them with SHARDED_STATE_DICT
    for (const WrittenRange& range : ranges) files.insert(range.file);
    for (const std::string& name : files) {
        if (!folder_exists(temporary_)) break;  // this process created it: another has removed it
        if (auto failure = wait_until_visible(temporary_ / name)) return failure;
    }
    Manifest manifest{step_, claim_.attempt, {}, {}, std::move(ranges), has_moments, hashes_};
    auto sizes = sizes_in(temporary_);
    if (!sizes) return sizes.failure();
    manifest.file_sizes = std::move(sizes).value();
    for (const auto& [name, hash] : hashes_) {
        std::error_code error;
        const auto size = std::filesystem::file_size(temporary_ / name, error);
        if (!error) manifest.file_sizes[name] = static_cast<int64_t>(size);
    }
    for (const auto& [name, size] : manifest.file_sizes) {
        if (!name.ends_with(".h5")) continue;
        auto hash = metadata_hash(temporary_ / name, manifest.ranges);
        if (!hash) return hash.failure();
        manifest.metadata_hashes[name] = std::move(hash).value();
    }
    if (auto fault = faults.reach("save:describe", file)) return fault;
    const std::string text = to_text(manifest);
    if (auto failure = write_file_atomically(file, text)) return failure;
    CheckpointInfo info{step_, claim_.attempt, has_moments, std::move(manifest.file_sizes)};
    info.file_sizes[manifest_name] = static_cast<int64_t>(text.size());
    return write_file_atomically(temporary_ / info_name, to_text(info));
}

std::optional<Failure> Commit::rename_to_final(Faults& faults) const {
    if (auto failure = check_newest(claim_)) return failure;
    // An existing checkpoint of this name is void: this attempt started before its step.
    if (auto failure = move_aside(claim_.output_dir, step_)) return failure;
    if (auto fault = faults.reach("save:name", temporary_)) return fault;
    if (std::rename(temporary_.c_str(), final_.c_str()) != 0)
        return io_failure(temporary_, "cannot get its name");
    return flush_folder(claim_.output_dir);
}

std::optional<Failure> Commit::finish(std::vector<WrittenRange> ranges, bool has_moments,
                                      Faults& faults, std::vector<std::string>& warnings) const {
    if (auto failure = describe(std::move(ranges), has_moments, faults)) return failure;
    if (auto failure = rename_to_final(faults)) return failure;
    faults.reach("save:named");
    const auto latest = claim_.output_dir / "latest";
    auto failure = faults.reach("save:latest", latest);
    if (!failure) failure = write_file_atomically(latest, final_.filename().string() + "\n");
    if (failure) warnings.push_back(failure->message);
    return std::nullopt;
}

// A process of an earlier attempt that is still alive fails on its removed files, and then finds
// the newer attempt.
void remove_leftovers(const std::filesystem::path& output_dir, int64_t attempt) {
    std::error_code ignored;
    for (const std::filesystem::path& entry : folder_entries(output_dir, ignored)) {
        const std::string name = entry.filename();
        const size_t mark = name.find(".tmp-");
        if (mark == std::string::npos || !name.starts_with("checkpoint-")) continue;
        const auto whose = read_whole_number(std::string_view(name).substr(mark + 5));
        if (whose && *whose < attempt) std::filesystem::remove_all(entry, ignored);
    }
    // These names do not say whose they are: a newer attempt may be writing them.
    const auto newest = newest_attempt(output_dir);
    if (!newest || newest.value() != attempt) return;
    remove_unfinished(output_dir, [](const std::string& name) {
        return name == "latest" || name == "metrics.jsonl" || name == "run.json" ||
               name == "trainer_state.json" || name == "log_history" || name == "parent.json";
    });
}

namespace {

// Removes the superseded checkpoints that exceed the limit together with `valid` valid ones, the
// first attempts' first: superseded ones count as older than all others.
std::optional<Failure> keep_newest_superseded(const Claim& claim, int64_t limit, int64_t valid) {
    std::vector<std::filesystem::path> superseded;
    std::error_code error;
    for (const std::filesystem::path& entry : folder_entries(claim.output_dir, error))
        if (entry.filename().string().starts_with(superseded_prefix)) superseded.push_back(entry);
    const auto order = [](const std::filesystem::path& folder) {
        const auto numbers =
            split(folder.filename().string().substr(superseded_prefix.size()), '-');
        return std::pair(numbers.size() < 2 ? 0 : read_whole_number(numbers[1]).value_or(0),
                         read_whole_number(numbers[0]).value_or(0));
    };
    std::ranges::sort(superseded, {}, order);
    const int64_t kept = std::max<int64_t>(0, limit - valid);
    for (int64_t i = 0; i + kept < std::ssize(superseded); ++i) {
        if (auto failure = check_newest(claim)) return failure;
        const auto& going = superseded[static_cast<size_t>(i)];
        std::filesystem::remove_all(going, error);
        if (error)
            return Failure{ExitCode::io, format_text("{} cannot be removed: {}", going.string(),
                                                     error.message())};
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> keep_newest(const Claim& claim, const Retention& retention) {
    std::vector<std::string> damaged;  // stay for the user to inspect
    const auto found = valid_checkpoints(claim.output_dir, damaged);
    if (!found) return found.failure();
    const std::vector<CheckpointEntry>& valid = found.value();
    auto left = static_cast<int64_t>(valid.size());
    if (auto failure = keep_newest_superseded(claim, *retention.limit, left)) return failure;
    std::set<int64_t> kept_steps = steps_in_use(claim.output_dir);
    kept_steps.insert(retention.kept_steps.begin(), retention.kept_steps.end());
    for (auto entry = valid.rbegin(); entry != valid.rend() && left > *retention.limit; ++entry) {
        const bool is_newest = entry->step == valid.front().step;
        if (is_newest || kept_steps.contains(entry->step)) continue;
        --left;
        if (auto failure = check_newest(claim)) return failure;
        // Rename it first: a half-removed folder must not look like a checkpoint.
        std::filesystem::path going = entry->folder;
        going += format_text(".tmp-{}", claim.attempt);
        if (std::rename(entry->folder.c_str(), going.c_str()) != 0)
            return io_failure(entry->folder, "cannot be removed");
        std::error_code error;
        std::filesystem::remove_all(going, error);
        if (error)
            return Failure{ExitCode::io, format_text("{} cannot be removed: {}", going.string(),
                                                     error.message())};
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
