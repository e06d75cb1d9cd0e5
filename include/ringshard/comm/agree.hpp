#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// A failure that every rank of a group has learnt of, so that all can leave together. Only what
// stands below makes one: a rank that returned its own Failure where this is asked for would leave
// the others waiting, and does not compile.
class AgreedFailure {
public:
    operator const Failure&() const { return failure_; }
    ExitCode code() const { return failure_.code; }
    const std::string& message() const { return failure_.message; }

private:
    explicit AgreedFailure(Failure failure) : failure_(std::move(failure)) {}
    friend std::optional<AgreedFailure> first_failure(const Group& group,
                                                      const std::optional<Failure>& mine);
    friend AgreedFailure found_by_all(Failure failure);

    Failure failure_;
};

template <class T>
using Agreed = Expected<T, AgreedFailure>;

// Every rank tells whether it failed; all learn of the failure of the lowest rank that did, with
// its rank and host in the message. So no rank enters a collective that another will never reach.
// Collective over the group.
std::optional<AgreedFailure> first_failure(const Group& group, const std::optional<Failure>& mine);

// What every rank finds by itself, because it comes of nothing but what all of them know.
AgreedFailure found_by_all(Failure failure);

// The same as first_failure() for what each rank has made by itself: all keep theirs, or all get
// the same failure. Collective over the group.
template <class T>
Agreed<T> agreed(const Group& group, Expected<T> mine) {
    if (const auto failure =
            first_failure(group, mine ? std::nullopt : std::optional(mine.failure())))
        return *failure;
    return std::move(mine).value();
}

// Rank 0 makes a text, or fails; all get it, or its failure: one look at a file in place of one on
// every rank. Collective over the group.
Agreed<std::string> of_root(const Group& group, const std::function<Expected<std::string>()>& make);

std::string host_name();

}  // namespace ringshard::comm
