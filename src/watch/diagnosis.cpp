#include "diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "ringshard/base/text.hpp"

namespace ringshard::watch {

namespace {

using Ranks = std::set<size_t>;

// An operation that at least one rank waits for.
struct Awaited {
    comm::GroupLogState group;  // as a waiting rank reports it
    Ranks waiting;
    Ranks missing;  // members of the group that have not reached it
};

const comm::GroupLogState* find_group(const Heartbeat& heartbeat,
                                      const comm::GroupLogState& group) {
    const auto found = std::ranges::find_if(
        heartbeat.groups, [&](const auto& other) { return other.is_same_group(group); });
    return found == heartbeat.groups.end() ? nullptr : &*found;
}

// Returns the operations for which training threads, or any threads, wait.
std::vector<Awaited> find_awaited(const std::vector<RankView>& ranks, bool main_threads_only) {
    std::vector<Awaited> all;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
        for (const comm::GroupLogState& group : ranks[rank].heartbeat.groups) {
            if (group.awaited == 0 || (main_threads_only && !group.is_main_waiting)) continue;
            const auto known = std::ranges::find_if(all, [&](const Awaited& other) {
                return other.group.is_same_group(group) && other.group.awaited == group.awaited;
            });
            if (known != all.end()) {
                known->waiting.insert(rank);
                continue;
            }
            Awaited& awaited = all.emplace_back(Awaited{group, {rank}, {}});
            for (size_t other = 0; other < ranks.size(); ++other) {
                const auto* theirs = find_group(ranks[other].heartbeat, group);
                if (theirs != nullptr && theirs->begun < group.awaited)
                    awaited.missing.insert(other);
            }
        }
    }
    return all;
}

std::string list(const Ranks& ranks) {
    constexpr size_t most = 8;
    std::vector<std::string> names;
    for (const size_t rank : ranks)
        if (names.size() < most) names.push_back(concat(rank));
    return format_text("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", join(names, ", "),
                       ranks.size() > most ? format_text(" and {} more", ranks.size() - most) : "");
}

std::string list_with_hosts(const Ranks& ranks, const std::vector<RankView>& views) {
    constexpr size_t most = 8;
    std::vector<std::string> names;
    for (const size_t rank : ranks)
        if (names.size() < most)
            names.push_back(format_text("rank {} on {}", rank, views[rank].host));
    return join(names, ", ") +
           (ranks.size() > most ? format_text(" and {} more", ranks.size() - most) : "");
}

std::string seconds(double value) { return format_text("{} s", std::lround(value)); }

std::string describe(const Awaited& awaited) {
    std::string text = awaited.group.last.empty()
                           ? format_text("operation {}", awaited.group.awaited)
                           : format_text("{} {} ({} bytes)", awaited.group.last.front().what,
                                         awaited.group.awaited, awaited.group.last.front().bytes);
    return format_text("{} of group {}", text, awaited.group.name);
}

std::string waiting_time(const Awaited& awaited) {
    return awaited.group.last.empty() ? "" : " for " + seconds(awaited.group.last.front().began);
}

std::string doing(const RankView& view) {
    return concat(view.heartbeat.step > 0 ? format_text("step {}, ", view.heartbeat.step) : "",
                  view.heartbeat.doing);
}

// Returns the missing ranks that do not wait for others; all missing ranks if each of them waits.
Ranks roots_of(const std::vector<Awaited>& awaited) {
    Ranks missing;
    Ranks blocked;
    for (const Awaited& operation : awaited) {
        if (operation.missing.empty()) continue;
        missing.insert(operation.missing.begin(), operation.missing.end());
        blocked.insert(operation.waiting.begin(), operation.waiting.end());
    }
    Ranks roots;
    std::ranges::set_difference(missing, blocked, std::inserter(roots, roots.end()));
    return roots.empty() ? missing : roots;
}

// Returns an operation that one of these ranks has not reached; nullptr if there is none.
const Awaited* find_missed(const std::vector<Awaited>& awaited, const Ranks& ranks) {
    for (const Awaited& operation : awaited)
        for (const size_t rank : ranks)
            if (operation.missing.contains(rank)) return &operation;
    return nullptr;
}

std::string describe_silent(const Ranks& silent, const std::vector<RankView>& ranks,
                            const std::vector<Awaited>& awaited) {
    double longest = 0;
    for (const size_t rank : silent) longest = std::max(longest, ranks[rank].silent_for);
    std::string text = format_text(
        "{}: no heartbeat for {} (the process is stopped, or its host or network is down)",
        list_with_hosts(silent, ranks), seconds(longest));
    if (const Awaited* missed = find_missed(awaited, silent))
        text += format_text("; has not reached {}, in which {} waited{}", describe(*missed),
                            list(missed->waiting), waiting_time(*missed));
    return format_text("{}; last heartbeat of rank {}: {}", text, *silent.begin(),
                       doing(ranks[*silent.begin()]));
}

std::string describe_missing(const Ranks& missing, const std::vector<RankView>& ranks,
                             const std::vector<Awaited>& awaited) {
    const Awaited* const missed = find_missed(awaited, missing);
    const RankView& first = ranks[*missing.begin()];
    return format_text("{}{} not reached {}, in which {} waited{}; {} at: {}, for {}",
                       list_with_hosts(missing, ranks), missing.size() == 1 ? " has" : " have",
                       describe(*missed), list(missed->waiting), waiting_time(*missed),
                       missing.size() == 1 ? "it is" : format_text("rank {} is", *missing.begin()),
                       doing(first), seconds(first.heartbeat.seconds));
}

}  // namespace

std::string diagnose(const std::vector<RankView>& ranks) {
    Ranks silent;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
        if (ranks[rank].is_silent) silent.insert(rank);
    std::vector<Awaited> awaited = find_awaited(ranks, true);
    if (silent.empty() && roots_of(awaited).empty()) awaited = find_awaited(ranks, false);
    if (!silent.empty()) return describe_silent(silent, ranks, awaited);

    if (const Ranks missing = roots_of(awaited); !missing.empty())
        return describe_missing(missing, ranks, awaited);
    if (!awaited.empty())
        return format_text(
            "all ranks of the group have reached {}, and {} waited{}: the network between them or "
            "MPI is not making progress",
            describe(awaited.front()), list(awaited.front().waiting),
            waiting_time(awaited.front()));
    Ranks late;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
        if (ranks[rank].heartbeat.is_late()) late.insert(rank);
    if (late.empty()) return "no rank exceeds its limit any more";
    const RankView& first = ranks[*late.begin()];
    return format_text(
        "{}{} made no progress for {} at: {}; no rank waits for another; the limit is {} "
        "(hang_timeout_s sets another one)",
        list_with_hosts(late, ranks), late.size() == 1 ? " has" : " have",
        seconds(first.heartbeat.idle), doing(first), seconds(first.heartbeat.limit));
}

}  // namespace ringshard::watch
