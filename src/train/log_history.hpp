#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// Returns the entry of a line of metrics in the log_history of transformers' trainer_state.json, as
// JSON; empty for lines of saves. Names that transformers and TRL do not log are left out.
std::string print_entry(const MetricsLine& line);

// The log_history of trainer_state.json, as JSON text with one entry to a line: about 250 bytes for
// each line of metrics. The text is in a file without a name, so that the memory of a long run does
// not grow. For rank 0.
class LogHistory {
public:
    // Entries that a checkpoint holds: the newest ones, so that a save of a long run takes no
    // longer than one of a short run. metrics.jsonl and the state at the end of a run have all.
    static constexpr size_t max_in_checkpoint = 10'000;

    // `folder`: of the file.
    explicit LogHistory(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // A line of metrics as it is logged, or as it was read from metrics.jsonl.
    void add(const MetricsLine& line);

    // Returns true if a run of so many steps is complete.
    bool has_end_at(int64_t num_steps) const;
    // Returns the sums of the steps that have lines: the losses are means over them.
    const checkpoint::RunSums& sums() const { return sums_; }

    // The history as it stands; any thread may read it.
    struct View {
        std::shared_ptr<const File> file{};  // entries, with commas between
        int64_t bytes = 0;                   // of the file
        std::string rest{};                  // further entries
        int64_t newest = 0;                  // where the newest max_in_checkpoint entries begin
        double epoch = 0;                    // the last one that was logged
        int64_t num_tokens = 0;
        double total_flos = 0;

        bool is_empty() const { return bytes == 0 && rest.empty(); }
        // Writes the entries from `begin` on, which is 0 or `newest`, into `into`, from `offset`
        // on, which is then behind them.
        std::optional<Failure> write_to(File& into, int64_t& offset, int64_t begin = 0) const;
    };
    View view() const;

private:
    void add_to_sums(const MetricsLine& line);
    void empty_into_file();

    std::filesystem::path folder_;
    std::shared_ptr<File> file_;  // shared with views, which read what is written once
    View last_;                   // without the file
    std::deque<int64_t> newest_;  // places of the newest entries
    checkpoint::RunSums sums_;
    int64_t last_step_ = 0;      // that has a line
    std::vector<int64_t> ends_;  // steps of the lines that end a run
};

}  // namespace ringshard::train
