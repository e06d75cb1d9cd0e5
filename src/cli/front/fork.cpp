#include "fork.hpp"

#include <algorithm>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/fork.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/checkpoint/state_file.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointEntry;

// What the command line says beside the settings.
struct ForkArgs {
    fs::path run;
    std::optional<int64_t> step{};  // of the checkpoint; else the newest
    std::vector<std::string> settings{};
};

bool is_flag(const std::string& word, const char* name) {
    return word == name || word.starts_with(std::string(name) + "=");
}

Expected<ForkArgs> read_args(const std::vector<std::string>& flags) {
    const auto refuse = [](const std::string& why) { return Failure{ExitCode::usage, why}; };
    if (flags.empty() || flags.front().starts_with("-"))
        return refuse(
            "name the run to begin from: trainer fork RUN [--step N] --output_dir FOLDER --setting "
            "value ...");
    ForkArgs args{flags.front()};
    for (auto flag = flags.begin() + 1; flag != flags.end(); ++flag) {
        for (const char* name : {"--config", "--from_shell", "--resume_from_checkpoint"})
            if (is_flag(*flag, name))
                return refuse(
                    format_text("{}: a fork has the settings of the run, and begins from its "
                                "checkpoint; give single settings that differ",
                                name));
        if (!is_flag(*flag, "--step")) {
            args.settings.push_back(*flag);
            continue;
        }
        const bool is_joined = flag->starts_with("--step=");
        if (!is_joined && flag + 1 == flags.end()) return refuse("--step: name a number");
        const std::string text = is_joined ? flag->substr(7) : *++flag;
        args.step = read_whole_number(text);
        if (!args.step) return refuse(format_text("--step {}: is no whole number", text));
    }
    return args;
}

// Returns the checkpoint of the step, or the newest, that holds all of a run's state.
Expected<CheckpointEntry> find_checkpoint(const ForkArgs& args) {
    if (!folder_exists(args.run))
        return Failure{ExitCode::missing_input,
                       format_text("fork {}: there is no such folder", args.run.string())};
    std::vector<std::string> damaged;
    auto valid = checkpoint::valid_checkpoints(args.run, damaged);
    if (!valid) return valid.failure();
    std::vector<std::string> steps;
    for (const CheckpointEntry& entry : valid.value()) {
        if (!entry.has_moments) continue;
        if (!args.step || entry.step == *args.step) return entry;
        steps.push_back(concat(entry.step));
    }
    return Failure{
        ExitCode::missing_input,
        format_text("fork {}: {}", args.run.string(),
                    file_exists(args.run / "manifest.json")
                        ? "is a checkpoint; give the folder of its run, and --step"
                    : steps.empty() ? "holds no whole checkpoint with all of a run's state"
                                    : format_text("has no whole checkpoint of step {}; it has {}",
                                                  *args.step, join(steps, ", ")))};
}

Expected<config::SettingsText> settings_of(const CheckpointEntry& entry) {
    const auto state = checkpoint::open_state_file(entry.folder / checkpoint::state_name);
    if (!state) return state.failure();
    const auto settings = state.value().texts.find("settings");
    if (settings != state.value().texts.end())
        return config::SettingsText{settings->second, entry.folder.string()};
    return Failure{ExitCode::bad_data,
                   format_text("{}: does not hold the settings of its run", entry.folder.string())};
}

// Fails if the run in output_dir did not begin from this checkpoint.
std::optional<Failure> check_is_fork(const fs::path& output_dir, const ForkArgs& args) {
    const auto parent = checkpoint::read_parent(output_dir);
    const bool is_of_run = parent && is_same_folder(parent->checkpoint.parent_path(), args.run);
    if (is_of_run && args.step.value_or(parent->step) == parent->step) return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("output_dir = {}: holds another run, which {}; name another folder",
                               output_dir.string(),
                               parent ? "began from " + parent->checkpoint.string()
                                      : std::string("did not begin as a fork"))};
}

config::Resolution failed(const Failure& failure) {
    config::Resolution result;
    result.problems.push_back(failure);
    return result;
}

}  // namespace

config::Resolution resolve_fork(const config::OptionTable& table, const Invocation& invocation,
                                const Environment& environment) {
    const auto args = read_args(invocation.flags);
    if (!args) return failed(args.failure());
    std::vector<std::string> flags = args.value().settings;
    const config::Resolution said = config::resolve(table, flags, environment);
    const fs::path output_dir = said.settings.values.run.output_dir;
    if (!said.settings.is_fixed("output_dir"))
        return failed({ExitCode::settings,
                       "output_dir is not set: name a folder for the run that begins here"});
    std::error_code ignored;
    if (fs::equivalent(output_dir, args.value().run, ignored))
        return failed({ExitCode::settings,
                       format_text("output_dir = {}: is the run to begin from; name another folder",
                                   output_dir.string())});
    // A restart goes on where this run stands, and needs no file of the parent.
    std::vector<std::string> damaged;
    const auto own = checkpoint::valid_checkpoints(output_dir, damaged);
    const bool is_restart = own && !(own.value().empty() && damaged.empty());
    if (is_restart)
        if (const auto failure = check_is_fork(output_dir, args.value())) return failed(*failure);
    const auto from = is_restart ? find_checkpoint({output_dir}) : find_checkpoint(args.value());
    if (!from) return failed(from.failure());
    const auto base = settings_of(from.value());
    if (!base) return failed(base.failure());
    flags.insert(flags.end(),
                 {"--resume_from_checkpoint", is_restart ? "auto" : from.value().folder.string()});
    if (!is_restart) flags.insert(flags.end(), {"--allow_changed", "true"});
    return config::resolve(table, flags, environment, base.value());
}

}  // namespace ringshard::cli
