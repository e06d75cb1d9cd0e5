#include "ringshard/run/run_entry.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "ringshard/base/files.hpp"
#include "ringshard/job/slurm.hpp"

namespace ringshard::run {

namespace {

checkpoint::Holder identify(const CommandContext& context, const LossFingerprint& fingerprint) {
    checkpoint::Holder me = checkpoint::this_process();
    const job::Slurm slurm = job::read_slurm(context.environment);
    if (!slurm.job_id.empty()) me.job = format_text("{}@{}", slurm.job_id, slurm.cluster);
    me.restarts = read_whole_number(slurm.restart_count).value_or(0);
    me.fingerprint = to_text(fingerprint);
    return me;
}

checkpoint::Claimant::Rules rules_of(const config::Settings& settings,
                                     const LossFingerprint& fingerprint) {
    const config::CheckpointSettings& checkpoint = settings.values.checkpoint;
    return {.takes_over = checkpoint.take_over,
            .differences =
                [fingerprint, allowed = checkpoint.allow_changed](const std::string& theirs) {
                    return allowed
                               ? std::string()
                               : join(differences(theirs, fingerprint, "there", "here"), "\n  ");
                },
            .output_dir_said = format_text("output_dir = {} [{}]", settings.values.run.output_dir,
                                           settings.origin_of("output_dir").place)};
}

Failure cannot_be_made(const std::filesystem::path& folder, const std::string& why) {
    return {ExitCode::io, format_text("output_dir = {} cannot be made: {}", folder.string(), why)};
}

std::optional<Failure> make_folder(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return cannot_be_made(folder, error.message());
    return std::nullopt;
}

// Looks at the folder, or at the nearest one above it that exists.
std::optional<Failure> refuse_folder(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::path there = std::filesystem::absolute(folder, error);
    while (!std::filesystem::exists(there, error) && there.has_relative_path())
        there = there.parent_path();
    if (!std::filesystem::is_directory(there, error))
        return cannot_be_made(folder, format_text("{} is no folder", there.string()));
    if (access(there.c_str(), W_OK | X_OK) == 0) return std::nullopt;
    return cannot_be_made(folder, format_text("nothing can be written into {}: {}", there.string(),
                                              std::generic_category().message(errno)));
}

// By name: a save makes a new one, and sets aside one that it replaces.
std::vector<std::string> names_of_checkpoints(const std::filesystem::path& output_dir) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : folder_entries(output_dir, ignored)) {
        const std::string name = entry.filename();
        if (!is_unfinished(name) &&
            (name.starts_with("checkpoint-") || name.starts_with("superseded-")))
            names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace

std::optional<comm::AgreedFailure> check_output_dir(const CommandContext& context) {
    const bool looks = context.world.is_root();
    return comm::first_failure(
        context.world,
        looks ? refuse_folder(context.settings.values.run.output_dir) : std::nullopt);
}

comm::Agreed<RunEntry> RunEntry::begin(const CommandContext& context,
                                       const LossFingerprint& fingerprint) {
    RunEntry entry;
    entry.output_dir_ = context.settings.values.run.output_dir;
    std::optional<Failure> failure;
    if (context.world.is_root()) {
        entry.claimant_.emplace(entry.output_dir_, identify(context, fingerprint),
                                rules_of(context.settings, fingerprint));
        failure = make_folder(entry.output_dir_);
        if (!failure) failure = entry.claimant_->check();
        entry.follows_itself_ = entry.claimant_->follows_itself();
        entry.checkpoints_ = names_of_checkpoints(entry.output_dir_);
    }
    if (const auto agreed = comm::first_failure(context.world, failure)) return *agreed;
    entry.follows_itself_ = context.world.maximum(entry.follows_itself_ ? 1 : 0) == 1;
    return entry;
}

bool RunEntry::finds_other_checkpoints(const comm::Group& world) const {
    const bool differs = claimant_ && names_of_checkpoints(output_dir_) != checkpoints_;
    return world.maximum(differs ? 1 : 0) == 1;
}

}  // namespace ringshard::run
