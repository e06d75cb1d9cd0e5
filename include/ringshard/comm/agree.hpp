#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ringshard/base/expected.hpp"
#include "ringshard/comm/group.hpp"

namespace ringshard::comm {

// A failure that all ranks of a group hold, so that all return together. Only the functions below
// create one: code that returns a rank's own Failure while other ranks wait does not compile.
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

// Returns on every rank the failure of the lowest rank that failed, with its rank and host in the
// message. So no rank enters a collective that another rank never reaches. Collective over the
// group.
std::optional<AgreedFailure> first_failure(const Group& group, const std::optional<Failure>& mine);

// Wraps a failure that every rank finds by itself, from data that all ranks have.
AgreedFailure found_by_all(Failure failure);

// Like first_failure(), for a value of each rank: every rank keeps its value, or all get the same
// failure. Collective over the group.
template <class T>
Agreed<T> agreed(const Group& group, Expected<T> mine) {
    if (const auto failure =
            first_failure(group, mine ? std::nullopt : std::optional(mine.failure())))
        return *failure;
    return std::move(mine).value();
}

// Returns on every rank the text that `make` returns on rank 0, or its failure: rank 0 reads a file
// for all. Collective over the group.
Agreed<std::string> of_root(const Group& group, const std::function<Expected<std::string>()>& make);

std::string host_name();

}  // namespace ringshard::comm
