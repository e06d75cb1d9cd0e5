#pragma once

#include <optional>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// Every rank tells whether it failed; all learn of the failure of the lowest rank that did, with
// its rank and host in the message. So no rank enters a collective that another will never reach.
// Collective over the group.
std::optional<Failure> first_failure(const Group& group, const std::optional<Failure>& mine);

std::string host_name();

}  // namespace ringshard::comm
