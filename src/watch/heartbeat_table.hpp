#pragma once

#include <string>
#include <vector>

#include "diagnosis.hpp"

namespace ringshard::watch {

// The last heartbeat of every rank, including this one, and its time of arrival. All times are
// seconds of one clock.
class HeartbeatTable {
public:
    // `hosts`: by rank. `silence`: seconds that a rank may be silent while others wait for it, or
    // Limits::none.
    HeartbeatTable(const std::vector<std::string>& hosts, double silence);

    void record(Heartbeat heartbeat, double now);  // ignored if its rank is out of range
    void reset_after_suspend(double now);  // treats every rank as if it had just made progress
    // Returns true if ranks wait for a silent one, or if a rank exceeds its limit and no rank makes
    // progress; views() then holds the details.
    bool is_stalled(double now);
    const std::vector<RankView>& views() const { return views_; }  // by rank

private:
    void find_silent(double now);
    double seconds_without_progress(double now) const;  // minimum over all ranks

    double silence_;
    std::vector<RankView> views_;
    std::vector<double> heard_at_;
};

}  // namespace ringshard::watch
