#pragma once

#include <functional>
#include <map>
#include <vector>

#include "log.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

// The lines of learners. One with a name has metrics of its own, output_dir/NAME/metrics.jsonl, as
// a run of its own would have; times and memory are those of the job. One without has those of the
// run. Rank 0 writes. Functions that return a failure are collective over the world.
class LearnerLogs {
public:
    // The arguments must outlive it.
    LearnerLogs(const Trainer& trainer, const comm::Group& world, const checkpoint::Store& store,
                Log& of_run);

    // Passes the lines so far to `show` on rank 0.
    using Show = std::function<void(size_t learner, const MetricsLine&)>;
    // For those that Log::begin() shows.
    void show_line_of_run(const MetricsLine& line, const Show& show) const;
    // Makes the folders, takes out lines that this attempt does not build on, puts back lost ones
    // from the checkpoint, whose folder may be empty, and shows all.
    std::optional<comm::AgreedFailure> begin(const std::filesystem::path& checkpoint,
                                             const Show& show);
    void add(const StepNumbers& numbers);
    // The lines of the steps since the last ones, of those of these learners that have their own.
    std::optional<comm::AgreedFailure> write_steps(const std::vector<size_t>& learners);
    // Returns the line of an evaluation after the last step.
    MetricsLine line_of(size_t learner, const EvaluationNumbers& numbers) const;
    // `shown`: in the log of the run. `samples`: on rank 0.
    std::optional<comm::AgreedFailure> write(size_t learner, MetricsLine line,
                                             const std::string& shown,
                                             const std::vector<TextSample>& samples);
    // The last line of a learner with metrics of its own, after its last step.
    std::optional<comm::AgreedFailure> write_end(size_t learner);

    // Returns the learners that have ended by this step and lack their last line: a run that was
    // cut off left them. Collective over the world.
    std::vector<size_t> cut_off_at(int64_t step) const;
    bool has_own(size_t learner) const { return own_.contains(learner); }
    // Where the result of a learner goes.
    std::filesystem::path folder(size_t learner) const;
    // The history of a learner with metrics of its own, with its numbers as they stand now.
    LogHistory::View state(size_t learner) const;

private:
    std::optional<Failure> read_lines(size_t learner, const std::filesystem::path& checkpoint,
                                      const Show& show);

    const Trainer& trainer_;
    const comm::Group& world_;
    std::filesystem::path output_dir_;
    Log& of_run_;
    std::map<size_t, MetricsLog> own_;
};

}  // namespace ringshard::train
