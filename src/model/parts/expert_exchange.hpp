#pragma once

#include <vector>

#include "ringshard/comm/communicator.hpp"
#include "ringshard/ops/routing.hpp"

namespace ringshard::model {

// The way of rows to the ranks of their experts, and back: an all-to-all of uneven parts. Every
// rank of the group takes part, with or without tokens. Without a group all experts are here, and
// rows stay where they are.
class ExpertExchange {
public:
    // rows: of this rank's tokens. arrivals: those of an exchange of the same tokens; undefined:
    // the ranks exchange how many rows each of them sends. Collective over the group.
    ExpertExchange(comm::Communicator* group, const ops::ExpertRows& rows, at::Tensor arrivals);

    // Rows of each expert of this rank, from all ranks.
    const std::vector<int64_t>& counts() const { return counts_; }
    // [ranks, experts of this rank] int64: rows that each rank sends; undefined without a group.
    const at::Tensor& arrivals() const { return arrivals_; }

    // Rows that travel; the caller computes meanwhile.
    struct Moving {
        at::Tensor rows;
        comm::Pending pending{};
    };
    // rows [n, ...]: of this rank's tokens, expert by expert. Collective over the group.
    Moving send_to_experts(const at::Tensor& rows) const;
    // Returns the rows of this rank's experts [m, ...], expert by expert.
    at::Tensor receive(Moving moving) const;
    at::Tensor to_experts(const at::Tensor& rows) const { return receive(send_to_experts(rows)); }
    // The way back: from [m, ...] to [n, ...]. Collective over the group.
    Moving send_to_tokens(const at::Tensor& rows) const;

private:
    comm::Communicator* group_;
    std::vector<int64_t> counts_;
    at::Tensor arrivals_;
    comm::RowCounts sent_;      // to each rank
    comm::RowCounts received_;  // from each rank
    ops::ArrivedRows arrived_;
};

// Returns rows that came back to their tokens.
at::Tensor wait_for(ExpertExchange::Moving moving);

}  // namespace ringshard::model
