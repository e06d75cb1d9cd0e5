#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringshard/config/logging_settings.hpp"
#include "ringshard/report/tracker.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::train {

// The trackers that report_to names; none but on rank 0. One whose files cannot be written is left
// out from then on, with a warning: training goes on, and the next start writes its files anew.
class Trackers {
public:
    using Say = std::function<void(const std::string&)>;

    Trackers() = default;
    Trackers(const config::LoggingSettings& settings, const report::TrackedRun& run, Say say);

    // A line that metrics.jsonl has from earlier attempts.
    void restore(const MetricsLine& line);
    void add(const MetricsLine& line);
    // The run is complete: says how to show or upload it.
    void end(double time);

private:
    struct Open {
        std::string name;
        std::unique_ptr<report::Tracker> tracker;
    };
    using Write = std::function<std::optional<Failure>(report::Tracker&)>;
    void for_all(const Write& write);
    void warn(const std::string& name, const Failure& failure) const;

    std::vector<Open> open_;
    double began_ = 0;  // this attempt, in seconds since 1970
    Say say_;
};

}  // namespace ringshard::train
