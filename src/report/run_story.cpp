#include "ringshard/report/run_story.hpp"

#include <set>

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/attempts.hpp"

namespace ringshard::report {

namespace {

namespace fs = std::filesystem;

// A run that has begun and logged nothing gets a page too, with its events.
bool has_attempts(const fs::path& run) {
    return file_exists(run / "run.json") || checkpoint::Attempts(run).newest() > 0;
}

Expected<RunStory> read_story(const fs::path& run, Verification verification,
                              std::vector<std::string>& warnings) {
    auto metrics = read_metrics_log(run, warnings);
    if (!folder_exists(run)) {
        if (!metrics) return metrics.failure();
        return RunStory{std::move(metrics).value(), verification, {}, {}, {}, {}, {}};
    }
    RunStory story{.verification = verification};
    if (metrics)
        story.metrics = std::move(metrics).value();
    else if (!has_attempts(run))
        return metrics.failure();
    else
        story.metrics.name =
            fs::absolute(run / "metrics.jsonl").lexically_normal().parent_path().filename();
    story.status = read_run_status(run, story.metrics);
    story.record = read_run_record(run);
    story.checkpoints = list_checkpoints(run, verification);
    story.events = list_events(run, story.metrics);
    constexpr size_t most_spikes = 50;  // as many as a user reads
    constexpr size_t most_documents = 3;
    story.spikes = read_spikes(run, most_spikes, most_documents);
    return story;
}

}  // namespace

Expected<std::vector<RunStory>> read_run_stories(const std::vector<fs::path>& runs,
                                                 Verification verification,
                                                 std::vector<std::string>& warnings) {
    std::vector<RunStory> stories;
    for (const fs::path& run : runs) {
        auto story = read_story(run, verification, warnings);
        if (!story) return story.failure();
        stories.push_back(std::move(story).value());
    }
    std::set<std::string> names;
    for (const RunStory& story : stories) names.insert(story.metrics.name);
    if (names.size() < stories.size())
        for (size_t i = 0; i < stories.size(); ++i) stories[i].metrics.name = runs[i].string();
    return stories;
}

}  // namespace ringshard::report
