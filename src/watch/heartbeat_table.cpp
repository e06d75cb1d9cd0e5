#include "heartbeat_table.hpp"

#include <algorithm>
#include <limits>

#include "limits.hpp"

namespace ringshard::watch {

HeartbeatTable::HeartbeatTable(const std::vector<std::string>& hosts, double silence)
    : silence_(silence), views_(hosts.size()), heard_at_(hosts.size()) {
    for (size_t rank = 0; rank < hosts.size(); ++rank) views_[rank].host = hosts[rank];
}

void HeartbeatTable::record(Heartbeat heartbeat, double now) {
    if (heartbeat.rank < 0 || heartbeat.rank >= std::ssize(views_)) return;
    const auto from = static_cast<size_t>(heartbeat.rank);
    heard_at_[from] = now;
    views_[from].was_heard = true;
    views_[from].heartbeat = std::move(heartbeat);
}

void HeartbeatTable::reset_after_suspend(double now) {
    std::ranges::fill(heard_at_, now);
    for (RankView& view : views_) view.heartbeat.idle = 0;
}

void HeartbeatTable::find_silent(double now) {
    for (size_t rank = 0; rank < views_.size(); ++rank) {
        RankView& view = views_[rank];
        view.silent_for = now - heard_at_[rank];
        view.is_silent = silence_ != Limits::none && view.was_heard && !view.heartbeat.is_last &&
                         view.silent_for > silence_;
    }
}

double HeartbeatTable::seconds_without_progress(double now) const {
    double least = std::numeric_limits<double>::infinity();
    for (size_t rank = 0; rank < views_.size(); ++rank)
        if (views_[rank].was_heard && !views_[rank].heartbeat.is_last)
            least = std::min(least, views_[rank].heartbeat.idle + (now - heard_at_[rank]));
    return least;
}

// A silent rank is a problem only if another rank waits for it: UDP can lose heartbeats while
// training continues. A late rank is a problem only if no rank makes progress: it may wait for a
// rank with a long row.
bool HeartbeatTable::is_stalled(double now) {
    find_silent(now);
    const double idle = seconds_without_progress(now);
    const auto waits_long = [&](const RankView& view) {
        return std::ranges::any_of(view.heartbeat.groups, [&](const comm::GroupLogState& group) {
            return !group.last.empty() && group.last.front().began > silence_;
        });
    };
    const bool some_wait = std::ranges::any_of(
        views_, [&](const RankView& view) { return !view.is_silent && waits_long(view); });
    return std::ranges::any_of(views_, [&](const RankView& view) {
        return view.is_silent ? some_wait : view.heartbeat.is_late() && idle > view.heartbeat.limit;
    });
}

}  // namespace ringshard::watch
