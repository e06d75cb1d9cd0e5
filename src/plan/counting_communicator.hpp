#pragma once

#include <string>

#include "ringshard/comm/communicator.hpp"
#include "ringshard/plan/step_plan.hpp"

namespace ringshard::plan {

// Sends nothing, and counts the bytes that a rank would send. A pending operation keeps its
// tensors, as in a run.
class CountingCommunicator final : public comm::Communicator {
public:
    CountingCommunicator(Traffic& traffic, int64_t rank) : traffic_(traffic), rank_(rank) {}

    int rank() const override { return static_cast<int>(rank_); }
    int size() const override { return static_cast<int>(traffic_.ranks); }
    comm::Pending all_reduce(at::Tensor in_out) override;
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override;
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override;
    comm::Pending all_to_all(at::Tensor out, at::Tensor in) override;
    comm::Pending all_to_all_uneven(at::Tensor out, comm::RowCounts received, at::Tensor in,
                                    comm::RowCounts sent) override;
    comm::Pending shift(std::vector<comm::Exchange> exchanges) override;
    comm::Pending broadcast(at::Tensor in_out, int root) override;

private:
    comm::Pending count(std::vector<at::Tensor> tensors, int64_t bytes);

    Traffic& traffic_;
    int64_t rank_;
};

}  // namespace ringshard::plan
