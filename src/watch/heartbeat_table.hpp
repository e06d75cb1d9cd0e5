#pragma once

#include <string>
#include <vector>

#include "diagnosis.hpp"

namespace ringshard::watch {

// The last heartbeat of every rank, this one too, and when it arrived. Times are seconds of one
// clock.
class HeartbeatTable {
public:
    // `hosts`: by rank. `silence`: seconds that a rank may be silent while others wait for it, or
    // Limits::none.
    HeartbeatTable(const std::vector<std::string>& hosts, double silence);

    void record(Heartbeat heartbeat, double now);  // ignored if its rank is out of range
    void reset_after_suspend(double now);          // as if every rank had just made progress
    // Returns true if ranks wait for a silent one, or if a rank exceeds its limit and no rank makes
    // progress; views() then has the details.
    bool is_stalled(double now);
    const std::vector<RankView>& views() const { return views_; }  // by rank

private:
    void find_silent(double now);
    double seconds_without_progress(double now) const;  // of every rank

    double silence_;
    std::vector<RankView> views_;
    std::vector<double> heard_at_;
};

}  // namespace ringshard::watch
