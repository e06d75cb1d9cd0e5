#include "tracked_run.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/wall_clock.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/settings.hpp"

namespace ringshard::run {

namespace {

std::string random_id() {
    std::random_device random;
    std::ostringstream digits;
    digits << std::hex << std::setfill('0');
    for (int i = 0; i < 4; ++i) digits << std::setw(8) << random();
    return digits.str();
}

// The id and the time at which the run began, as one line of output_dir/tracked-run.
void identify(report::TrackedRun& run, bool begins_anew) {
    const auto file = run.output_dir / "tracked-run";
    std::istringstream line(begins_anew ? "" : read_file(file).value_or(""));
    if (line >> run.id >> run.began && run.id.size() == 32) return;
    run.id = random_id();
    run.began = run.attempt_began;
    // Without the file the next start is another run to trackers: no reason to end this one.
    if (const auto failure =
            write_file_atomically(file, format_text("{} {}\n", run.id, shortest(run.began))))
        std::cerr << "warning: " << failure->message << '\n';
}

// The trackers' own variables are weaker than the setting.
std::string find_project(const CommandContext& context) {
    if (context.settings.given.contains("project")) return context.settings.values.logging.project;
    for (const char* variable : {"WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "TRACKIO_PROJECT"})
        if (const auto named = context.environment.find(variable); named && !named->empty())
            return *named;
    return context.settings.values.logging.project;
}

}  // namespace

report::TrackedRun tracked_run(const CommandContext& context, int64_t step) {
    const config::Config& config = context.settings.values;
    const bool has_trackers = std::ranges::any_of(
        config.logging.report_to, [](const std::string& place) { return place != "none"; });
    report::TrackedRun run;
    if (!context.world.is_root() || !has_trackers) return run;
    run.output_dir = config.run.output_dir;
    const std::filesystem::path logging_dir = config.logging.logging_dir;
    run.tensorboard_dir = logging_dir.empty() ? run.output_dir / "tensorboard" : logging_dir;
    run.project = find_project(context);
    run.name = config.run.run_name.empty() ? config.run.output_dir : config.run.run_name;
    run.attempt_began = seconds_since_1970();
    run.first_step = step + 1;
    run.host = comm::host_name();
    run.user = context.environment.find("USER").value_or("");
    for (const auto& [name, given] : context.settings.given)
        run.settings.emplace_back(name, given.text);
    identify(run, step == 0 && config.checkpoint.resume_from_checkpoint == "never");
    return run;
}

}  // namespace ringshard::run
