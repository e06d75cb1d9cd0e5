#pragma once

#include <functional>

#include "log_history.hpp"
#include "ringshard/train/metrics.hpp"
#include "summary.hpp"

namespace ringshard::train {

// The metrics of a run, or of a learner in it: metrics.jsonl of a folder, its history, and the
// totals. All ranks count; rank 0 writes.
class MetricsLog {
public:
    using Say = std::function<void(const std::string&)>;  // to people, on rank 0
    // `before`: the sums of the checkpoint from which this attempt goes on, if it has some.
    MetricsLog(checkpoint::Claim claim, const std::filesystem::path& folder,
               const std::optional<checkpoint::RunSums>& before, Say say);

    // Removes the lines of earlier attempts that this one does not build on, puts back lost ones
    // from `state`, trainer_state.json of the checkpoint or empty, and passes all to `show`. For
    // rank 0.
    std::optional<Failure> read_lines(const std::filesystem::path& state,
                                      const std::function<void(const MetricsLine&)>& show);
    // Goes on from the sums of the attempts before: of the checkpoint, or else of their lines.
    void begin() { totals_.before = before_.value_or(history_.sums()); }

    void add(const StepNumbers& numbers);
    // Returns the steps that no line has yet; nothing if there are none.
    std::optional<StepWindow::Summary> take_steps();
    MetricsLine line_of(const StepWindow::Summary& steps, const Usage& usage) const;
    MetricsLine end_line(int64_t step, double epoch) const;
    // Writes a line, to which it adds the time. For rank 0.
    std::optional<Failure> record(MetricsLine& line, const std::vector<TextSample>& samples = {});
    // Fails if the disk has not taken all lines. For rank 0.
    std::optional<Failure> write_kept() { return file_.write_kept(); }

    std::filesystem::path folder() const { return file_.folder(); }
    const RunTotals& totals() const { return totals_; }
    // The history of all lines of the run so far; empty but on rank 0.
    const LogHistory& history() const { return history_; }
    // The history with the numbers as they stand now: the last steps may have no line yet.
    LogHistory::View view(double epoch, int64_t num_tokens) const;

private:
    MetricsFile file_;
    LogHistory history_;
    std::optional<checkpoint::RunSums> before_;
    Say say_;
    StepWindow window_{};
    RunTotals totals_{};
};

}  // namespace ringshard::train
