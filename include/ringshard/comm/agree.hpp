#pragma once

#include <optional>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// Every rank tells whether it failed; all learn of the failure of the lowest rank that did, with
// its rank and host in the message. So no rank enters a collective that another will never reach.
// Collective over the group.
std::optional<Failure> first_failure(const Group& group, const std::optional<Failure>& mine);

// The same for what each rank has made by itself: all keep theirs, or all get the same failure.
template <class T>
Expected<T> agreed(const Group& group, Expected<T> mine) {
    if (const auto failure =
            first_failure(group, mine ? std::nullopt : std::optional(mine.failure())))
        return *failure;
    return mine;
}

std::string host_name();

}  // namespace ringshard::comm
