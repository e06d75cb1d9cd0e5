#include "sweep_plan.hpp"

#include <algorithm>

#include "ringshard/base/files.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/config/sweep_file.hpp"
#include "ringshard/job/array.hpp"
#include "ringshard/report/run_status.hpp"

namespace ringshard::cli {

namespace fs = std::filesystem;

namespace {

const char* const settings_name = "settings.yaml";

std::string in_words(const config::NamedTexts& own) {
    std::vector<std::string> words;
    for (const auto& [name, text] : own) words.push_back(format_text("{}={}", name, text));
    return join(words, " ");
}

std::string adapters_in_words(const config::Sweep& sweep) {
    std::vector<std::string> adapters;
    for (const config::NamedTexts& own : sweep.runs) adapters.push_back(in_words(own));
    return format_text("one job of {} adapters: {}", adapters.size(), join(adapters, "; "));
}

std::optional<Failure> check_folder(const config::NamedTexts& settings, const fs::path& file,
                                    const fs::path& sweep_folder) {
    for (const auto& [name, text] : settings)
        if (name == "output_dir")
            return Failure{
                ExitCode::settings,
                format_text("{}: output_dir = {}: every run of a sweep has a folder of its own, "
                            "{}; leave it out",
                            file.string(), text, (sweep_folder / "<index>").string())};
    return std::nullopt;
}

}  // namespace

Expected<SweepPlan> plan_sweep(const fs::path& file, const fs::path& runs_folder,
                               const Environment& environment) {
    const auto read = config::read_sweep(file);
    if (!read) return read.failure();
    const config::Sweep& sweep = read.value();
    const config::OptionTable table;
    SweepPlan plan{runs_folder / sweep.name, {}};
    const size_t num_runs = sweep.is_one_job ? 1 : sweep.runs.size();
    for (size_t index = 0; index < num_runs; ++index) {
        PlannedRun run{plan.folder / concat(index), {}, {}};
        config::NamedTexts all =
            sweep.is_one_job ? sweep.settings_of_one_job() : sweep.all_settings(index);
        if (const auto failure = check_folder(all, file, plan.folder)) return *failure;
        all.emplace_back("output_dir", run.folder);
        const std::string origin = format_text(
            "{}, {}", file.string(), sweep.is_one_job ? "one_job" : format_text("run {}", index));
        const config::Resolution resolution = config::resolve(table, all, origin, environment);
        if (!resolution.problems.empty()) return config::summary(resolution.problems);
        run.differs = sweep.is_one_job ? adapters_in_words(sweep) : in_words(sweep.runs[index]);
        run.settings = config::to_settings_file(all);
        plan.runs.push_back(std::move(run));
    }
    return plan;
}

namespace {

// A run that has begun goes on with the settings it began with, and one that waits begins with
// those it was submitted with.
std::optional<Failure> check_unchanged(const PlannedRun& run, bool has_begun, bool waits) {
    const auto before = read_file(run.folder / settings_name);
    if (!before || *before == run.settings || (!has_begun && !waits)) return std::nullopt;
    const char* const cure = has_begun ? "give the sweep another name, or remove the folder"
                                       : "give the sweep another name, or cancel the job first";
    return Failure{
        ExitCode::settings,
        format_text("{}{} with other settings than the file has now; {}", run.folder.string(),
                    has_begun ? ": has begun" : ": waits in the queue", cure)};
}

std::optional<Failure> write_settings(const PlannedRun& run) {
    const fs::path file = run.folder / settings_name;
    if (read_file(file) == run.settings) return std::nullopt;
    std::error_code error;
    fs::create_directories(run.folder, error);
    if (error)
        return Failure{ExitCode::io, format_text("{}: {}", run.folder.string(), error.message())};
    return write_file_atomically(file, run.settings);
}

}  // namespace

Expected<std::vector<int64_t>> write_runs(const SweepPlan& plan) {
    using report::RunState;
    const auto in_queue = job::elements_in_queue(submitted_jobs(plan.folder));
    std::vector<int64_t> open;
    for (size_t i = 0; i < plan.runs.size(); ++i) {
        const auto index = static_cast<int64_t>(i);
        const RunState state = report::read_run_status(plan.runs[i].folder).state;
        const bool waits = in_queue && in_queue->contains(index);
        if (auto failure = check_unchanged(plan.runs[i], state != RunState::missing, waits))
            return *failure;
        const bool is_in_hand = state == RunState::complete || state == RunState::running || waits;
        if (!is_in_hand) open.push_back(index);
    }
    for (const PlannedRun& run : plan.runs)
        if (auto failure = write_settings(run)) return *failure;
    return open;
}

std::vector<std::string> submitted_jobs(const fs::path& sweep_folder) {
    std::vector<std::string> jobs;
    for (const std::string& line : split(read_file(sweep_folder / "jobs").value_or(""), '\n'))
        if (!trim(line).empty()) jobs.emplace_back(trim(line));
    return jobs;
}

std::optional<Failure> record_job(const fs::path& sweep_folder, const std::string& job_id) {
    return append_line(sweep_folder / "jobs", job_id);
}

std::vector<fs::path> metrics_folders(const fs::path& run) {
    std::vector<fs::path> of_adapters;
    std::error_code ignored;  // a run that has not begun has no folder
    for (const auto& entry : fs::directory_iterator(run, ignored))
        if (file_exists(entry.path() / "metrics.jsonl")) of_adapters.push_back(entry.path());
    std::ranges::sort(of_adapters);
    return of_adapters.empty() ? std::vector{run} : of_adapters;
}

Expected<std::vector<fs::path>> find_runs(const fs::path& sweep_folder) {
    if (!folder_exists(sweep_folder))
        return Failure{ExitCode::missing_input,
                       format_text("{}: there is no such folder", sweep_folder.string())};
    std::vector<fs::path> runs;
    for (fs::path run = sweep_folder / "0"; folder_exists(run);
         run = sweep_folder / concat(runs.size()))
        runs.push_back(run);
    if (runs.empty())
        return Failure{ExitCode::bad_data,
                       format_text("{}: holds no run 0, so it is not the folder of a sweep; "
                                   "`trainer sweep submit FILE` makes one",
                                   sweep_folder.string())};
    return runs;
}

}  // namespace ringshard::cli
