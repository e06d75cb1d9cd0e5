#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/base/expected.hpp"

// The numbers of a run in the files of a tracker of experiments, written without its package and
// without a network. The package's own tools read, show and upload them.
namespace ringshard::report {

// A run as trackers know it. All attempts of a run are one run to them.
struct TrackedRun {
    std::filesystem::path output_dir;
    std::filesystem::path tensorboard_dir;
    std::string id;  // 32 hexadecimal digits
    std::string project;
    std::string name;
    double began = 0;          // the first attempt, in seconds since 1970
    double attempt_began = 0;  // this attempt
    int64_t first_step = 1;    // of this attempt
    std::string host;
    std::string user;
    // The settings that were given: names, and texts of the values.
    std::vector<std::pair<std::string, std::string>> settings;
};

// A line of metrics.jsonl.
struct TrackedLine {
    int64_t step = 0;
    double time = 0;  // when it was written, in seconds since 1970
    std::vector<std::pair<std::string, double>> numbers;  // without step and time
};

// The files of one tracker. Each start writes them anew from metrics.jsonl, so a line of a step
// that an attempt repeats is in them once, and a lost file loses nothing.
class Tracker {
public:
    virtual ~Tracker() = default;

    // Takes a line of an earlier attempt; all of them come before the first add().
    virtual std::optional<Failure> restore(const TrackedLine& line) = 0;
    virtual std::optional<Failure> add(const TrackedLine& line) = 0;
    // The run is complete.
    virtual std::optional<Failure> end(double time) = 0;
    // Returns the command that shows or uploads the run; empty if nothing has to be said.
    virtual std::string command() const = 0;
};

Expected<std::unique_ptr<Tracker>> open_tensorboard(const TrackedRun& run);
// output_dir/wandb/offline-run-<time>-<id>/run-<id>.wandb, which `wandb sync` uploads.
Expected<std::unique_ptr<Tracker>> open_wandb(const TrackedRun& run);
// output_dir/mlruns, MLflow's store of files.
Expected<std::unique_ptr<Tracker>> open_mlflow(const TrackedRun& run);
// output_dir/trackio/<project>.db, Trackio's database.
Expected<std::unique_ptr<Tracker>> open_trackio(const TrackedRun& run);

}  // namespace ringshard::report
