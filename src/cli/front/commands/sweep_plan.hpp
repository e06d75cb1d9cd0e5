#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"

namespace ringshard::cli {

// A run of a sweep: settings that were looked through, and the folder it writes.
struct PlannedRun {
    std::filesystem::path folder;  // runs/<sweep>/<index>
    std::string differs;           // "learning_rate=2e-05 seed=1": what is its own
    std::string settings;          // the file for --config
};

struct SweepPlan {
    std::filesystem::path folder;  // runs/<sweep>
    std::vector<PlannedRun> runs;  // by index
};

// Every run, or the one job of adapters that the file asks for, with all problems of its settings
// found before anything is written.
Expected<SweepPlan> plan_sweep(const std::filesystem::path& file,
                               const std::filesystem::path& runs_folder,
                               const Environment& environment);

// Writes the settings of every run that lacks them, and gives the indices that are to be submitted:
// those that neither are complete, nor run, nor wait in SLURM's queue.
Expected<std::vector<int64_t>> write_runs(const SweepPlan& plan);

// Jobs of a sweep that were submitted.
std::vector<std::string> submitted_jobs(const std::filesystem::path& sweep_folder);
std::optional<Failure> record_job(const std::filesystem::path& sweep_folder,
                                  const std::string& job_id);

// The folders with the metrics of a run: its own, or those of adapters that train together in it.
std::vector<std::filesystem::path> metrics_folders(const std::filesystem::path& run);

// The folders of a sweep's runs, by index.
Expected<std::vector<std::filesystem::path>> find_runs(const std::filesystem::path& sweep_folder);

}  // namespace ringshard::cli
