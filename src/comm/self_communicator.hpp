#pragma once

#include "ringshard/comm/communicator.hpp"

namespace ringshard::comm {

// A group of one rank: operations are copies within its device, done when the call returns (on a
// GPU, queued on the current stream).
class SelfCommunicator final : public Communicator {
public:
    explicit SelfCommunicator(at::Device device) : device_(device.type()) {}

    int rank() const override { return 0; }
    int size() const override { return 1; }
    Pending all_reduce(at::Tensor in_out) override;
    Pending all_gather(at::Tensor out, at::Tensor in) override;
    Pending reduce_scatter(at::Tensor out, at::Tensor in) override;
    Pending all_to_all(at::Tensor out, at::Tensor in) override;
    Pending all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                              RowCounts sent) override;
    Pending shift(std::vector<Exchange> exchanges) override;
    Pending broadcast(at::Tensor in_out, int root) override;

private:
    Pending copy(const at::Tensor& to, const at::Tensor& from) const;

    at::DeviceType device_;
};

}  // namespace ringshard::comm
