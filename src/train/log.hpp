#pragma once

#include "event_schedule.hpp"
#include "hooks.hpp"
#include "metrics_log.hpp"
#include "progress.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/report/tracker.hpp"
#include "trackers.hpp"

namespace ringshard::train {

// Writes the numbers of a run: the progress on standard error, output_dir/metrics.jsonl, and the
// files of the trackers that report_to names. Rank 0 writes.
class Log {
public:
    // `beginning`: the position from which this attempt goes on.
    Log(const config::LoggingSettings& settings, const comm::Group& world,
        const checkpoint::Store& store, report::TrackedRun run,
        const checkpoint::Progress& beginning, int64_t num_steps);

    // Removes the lines of earlier attempts that this one does not build on, puts back lost ones
    // from `state`, and passes all to `show` on rank 0. `peak_operations`: of this rank, per
    // second. `state`: trainer_state.json of the checkpoint, or empty. Collective over the world.
    std::optional<comm::AgreedFailure> begin(double peak_operations,
                                             const std::filesystem::path& state,
                                             const std::function<void(const MetricsLine&)>& show);

    void add(const StepNumbers& numbers);
    // Writes the line of the steps since the last one. Collective over the world.
    std::optional<comm::AgreedFailure> write_steps(const MemoryByKind& memory);
    // Takes note of the memory without a line: as in transformers, the last steps of a run have one
    // only where it is due. Collective over the world.
    void take_maxima(const MemoryByKind& memory) { usage_.take_maxima(memory, world_); }
    // Writes any other line; `samples`: on rank 0. Collective over the world.
    std::optional<comm::AgreedFailure> write(const MetricsLine& line, const std::string& shown,
                                             const std::vector<TextSample>& samples = {});
    void say(const std::string& text);
    // Looks after the commands of hooks; called between steps.
    void look_after_hooks() { hooks_.look(); }
    // Starts on_end, and waits for the commands of hooks for so many seconds at most.
    void end_hooks(int64_t step, int exit_code, double seconds) {
        hooks_.end(step, exit_code, seconds);
    }
    // Fails if the disk has not taken all lines. Collective over the world.
    std::optional<comm::AgreedFailure> end();

    const MetricsLog& metrics() const { return metrics_; }
    const Usage& usage() const { return usage_; }
    int64_t peak_memory_bytes() const { return usage_.peak_memory_bytes; }

private:
    std::optional<Failure> record(MetricsLine line, const std::vector<TextSample>& samples = {});

    const comm::Group& world_;
    config::LoggingSettings settings_;
    report::TrackedRun run_;
    MetricsLog metrics_;
    Trackers trackers_;
    Hooks hooks_;
    Progress progress_;
    std::vector<SkipWarnings> skips_;  // by learner
    std::set<std::string> attention_;  // operators that were reported
    Usage usage_;
};

}  // namespace ringshard::train
