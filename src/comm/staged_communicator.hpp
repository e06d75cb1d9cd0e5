#pragma once

#include "ringshard/comm/communicator.hpp"

namespace ringshard::comm {

// Copies device tensors to the host, sends them with another communicator, and copies the result
// back. For ranks that share a GPU, which NCCL refuses: slow, with the same results.
class StagedCommunicator final : public Communicator {
public:
    explicit StagedCommunicator(std::unique_ptr<Communicator> of_host)
        : of_host_(std::move(of_host)) {}

    int rank() const override { return of_host_->rank(); }
    int size() const override { return of_host_->size(); }
    Pending all_reduce(at::Tensor in_out) override;
    Pending all_gather(at::Tensor out, at::Tensor in) override;
    Pending reduce_scatter(at::Tensor out, at::Tensor in) override;
    Pending all_to_all(at::Tensor out, at::Tensor in) override;
    Pending all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                              RowCounts sent) override;
    Pending shift(std::vector<Exchange> exchanges) override;
    Pending broadcast(at::Tensor in_out, int root) override;

private:
    std::unique_ptr<Communicator> of_host_;
};

}  // namespace ringshard::comm
