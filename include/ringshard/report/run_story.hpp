#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/report/metrics_log.hpp"
#include "ringshard/report/run_status.hpp"

namespace ringshard::report {

// The content of run.json, from the start of the newest attempt.
struct RunRecord {
    struct Rank {
        std::string host, device;
    };
    struct Setting {
        std::string name, value, origin;
        bool is_given = false;
    };
    std::vector<std::pair<std::string, std::string>> versions;
    int64_t replicate = 1, shard = 1, ring = 1, ulysses = 1;
    std::string cuts;  // in words
    std::optional<int64_t> effective_batch;
    std::vector<Rank> ranks;
    std::vector<Setting> settings;

    int64_t sequence() const { return ring * ulysses; }
    int64_t world() const { return replicate * shard * sequence(); }
    const Setting* find(const std::string& setting) const;
};
// Nothing if there is none, or none that can be read.
std::optional<RunRecord> read_run_record(const std::filesystem::path& run);

enum class Verification { sizes, every_byte };

struct SavedState {
    enum class Condition { whole, damaged, superseded };
    std::string name;
    int64_t step = 0;
    int64_t attempt = 0;
    int64_t bytes = 0;  // of all files, where that is known
    Condition condition = Condition::whole;
    std::string remark{};  // why it is damaged, or what it lacks
};
// The checkpoints that lie in the folder, newest first.
std::vector<SavedState> list_checkpoints(const std::filesystem::path& run,
                                         Verification verification);

// Something that happened to a run beside its steps.
struct Event {
    enum class Weight { plain, good, warning, bad };
    int64_t attempt = 0;
    std::optional<int64_t> step{};
    Weight weight = Weight::plain;
    std::string what{};
    std::string detail{};
};
// In the order of attempts and steps.
std::vector<Event> list_events(const std::filesystem::path& run, const MetricsLog& metrics);

// Everything that a run has left, for a page about it.
struct RunStory {
    MetricsLog metrics{};                             // may hold no step
    Verification verification = Verification::sizes;  // with which the checkpoints were looked at
    RunStatus status{};
    std::optional<RunRecord> record{};
    std::vector<SavedState> checkpoints{};
    std::vector<Event> events{};
};

// `runs` are folders, or a metrics.jsonl, of which there are the curves alone. A run that has begun
// and logged no step is one too.
Expected<std::vector<RunStory>> read_run_stories(const std::vector<std::filesystem::path>& runs,
                                                 Verification verification,
                                                 std::vector<std::string>& warnings);

}  // namespace ringshard::report
