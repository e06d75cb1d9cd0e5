#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/report/document_log.hpp"
#include "ringshard/report/metrics_log.hpp"
#include "ringshard/report/run_status.hpp"

namespace ringshard::report {

// The content of run.json, which the newest attempt wrote at its start.
struct RunRecord {
    struct Rank {
        std::string host, device;
    };
    struct Setting {
        std::string name, value, origin;
        bool is_given = false;
        bool has_effect = true;  // false: a setting of another program that is accepted
    };
    std::vector<std::pair<std::string, std::string>> versions;
    int64_t replicate = 1, shard = 1, ring = 1, ulysses = 1;
    std::string cuts;  // as text
    std::optional<int64_t> effective_batch;
    std::vector<Rank> ranks;
    std::vector<Setting> settings;

    int64_t sequence() const { return ring * ulysses; }
    int64_t world() const { return replicate * shard * sequence(); }
    const Setting* find(const std::string& setting) const;
};
// Returns nothing if there is no readable record.
std::optional<RunRecord> read_run_record(const std::filesystem::path& run);

enum class Verification { sizes, every_byte };

struct SavedState {
    enum class Condition { whole, damaged, superseded };
    std::string name;
    int64_t step = 0;
    int64_t attempt = 0;
    int64_t bytes = 0;  // of all files, if known
    Condition condition = Condition::whole;
    std::string remark{};  // why it is damaged, or what is missing
};
// Returns the checkpoints in the folder, newest first.
std::vector<SavedState> list_checkpoints(const std::filesystem::path& run,
                                         Verification verification);

// An event of a run besides its steps.
struct Event {
    enum class Weight { plain, good, warning, bad };
    int64_t attempt = 0;
    std::optional<int64_t> step{};
    Weight weight = Weight::plain;
    std::string what{};
    std::string detail{};
};
// Returns events ordered by attempt and step.
std::vector<Event> list_events(const std::filesystem::path& run, const MetricsLog& metrics);

// Everything that a run has left behind, for a page about it.
struct RunStory {
    MetricsLog metrics{};                             // may be empty
    Verification verification = Verification::sizes;  // how the checkpoints were verified
    RunStatus status{};
    std::optional<RunRecord> record{};
    std::vector<SavedState> checkpoints{};
    std::vector<Event> events{};
    std::vector<LoggedStep> spikes{};  // whose documents the run logged, each with the worst ones
};

// Reads the folders of runs, or metrics.jsonl files, which provide only curves. Includes runs that
// have begun and logged no step.
Expected<std::vector<RunStory>> read_run_stories(const std::vector<std::filesystem::path>& runs,
                                                 Verification verification,
                                                 std::vector<std::string>& warnings);

}  // namespace ringshard::report
