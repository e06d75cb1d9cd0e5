#pragma once

#include <functional>
#include <vector>

#include "log_history.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/train/metrics.hpp"
#include "ringshard/train/trainer.hpp"
#include "summary.hpp"

namespace ringshard::train {

// The metrics of adapters that train together, output_dir/NAME/metrics.jsonl of each: the lines
// that a run of its own would have. Times and memory are those of the job. Rank 0 writes. Functions
// that return a failure are collective over the world.
class AdapterLogs {
public:
    // `trainer` must outlive it.
    AdapterLogs(const Trainer& trainer, const comm::Group& world, const checkpoint::Store& store);

    // Makes the folders, takes out lines that this attempt does not build on, puts back lost ones
    // from the checkpoint, whose folder may be empty, and shows all on rank 0.
    std::optional<comm::AgreedFailure> begin(
        const std::filesystem::path& checkpoint,
        const std::function<void(size_t adapter, const MetricsLine&)>& show);
    void add(const StepNumbers& numbers);
    // The lines of the steps since the last ones, of some adapters.
    std::optional<comm::AgreedFailure> write_steps(const std::vector<size_t>& adapters,
                                                   const Usage& usage);
    // Returns the line of an evaluation after the last step.
    MetricsLine line_of(size_t adapter, const EvaluationNumbers& numbers) const;
    // `samples`: on rank 0.
    std::optional<comm::AgreedFailure> write(size_t adapter, const MetricsLine& line,
                                             const std::vector<TextSample>& samples);
    // The last line of an adapter, after its last step.
    std::optional<comm::AgreedFailure> write_end(size_t adapter);

    // Returns the adapters that have ended by this step and lack their last line: a run that was
    // cut off left them. Collective over the world.
    std::vector<size_t> cut_off_at(int64_t step) const;
    const std::filesystem::path& folder(size_t adapter) const { return adapters_[adapter].folder; }
    // The history of an adapter with its numbers as they stand now.
    LogHistory::View state(size_t adapter) const;
    // The same of all, by their names.
    std::map<std::string, LogHistory::View> histories() const;

private:
    struct OfAdapter {
        std::filesystem::path folder;
        MetricsFile file;
        LogHistory history;
        StepWindow window{};
        RunTotals totals{};
        SkipWarnings skips{};
        double epoch = 0;       // of its last step
        double operations = 0;  // of the run so far
    };
    std::optional<Failure> read_lines(
        size_t number, const std::filesystem::path& checkpoint,
        const std::function<void(size_t adapter, const MetricsLine&)>& show);
    std::optional<Failure> record(OfAdapter& adapter, MetricsLine line,
                                  const std::vector<TextSample>& samples = {});
    std::optional<Failure> record_steps(OfAdapter& adapter, const Usage& usage);

    const Trainer& trainer_;
    const comm::Group& world_;
    std::vector<OfAdapter> adapters_;
};

}  // namespace ringshard::train
