#include "staged_communicator.hpp"

#include <ATen/ops/empty_like.h>

#include <utility>

namespace ringshard::comm {

namespace {

at::Tensor on_host(const at::Tensor& tensor) {
    return tensor.to(tensor.options().device(at::kCPU), false, true);  // always copies
}

at::Tensor room_on_host(const at::Tensor& tensor) {
    return at::empty_like(tensor, tensor.options().device(at::kCPU));
}

struct Arrival {
    at::Tensor on_device;
    at::Tensor on_host;
};

class CopiedBack final : public Completion {
public:
    CopiedBack(Pending pending, std::vector<Arrival> arrivals)
        : pending_(std::move(pending)), arrivals_(std::move(arrivals)) {}
    void wait() override {
        pending_.wait();
        for (const Arrival& arrival : arrivals_) arrival.on_device.copy_(arrival.on_host);
    }

private:
    Pending pending_;
    std::vector<Arrival> arrivals_;
};

Pending copied_back(Pending pending, std::vector<Arrival> arrivals) {
    return Pending(std::make_unique<CopiedBack>(std::move(pending), std::move(arrivals)));
}

}  // namespace

Pending StagedCommunicator::all_reduce(at::Tensor in_out) {
    const at::Tensor host = on_host(in_out);
    return copied_back(of_host_->all_reduce(host), {{in_out, host}});
}

Pending StagedCommunicator::all_gather(at::Tensor out, at::Tensor in) {
    const at::Tensor host = room_on_host(out);
    return copied_back(of_host_->all_gather(host, on_host(in)), {{out, host}});
}

Pending StagedCommunicator::reduce_scatter(at::Tensor out, at::Tensor in) {
    const at::Tensor host = room_on_host(out);
    return copied_back(of_host_->reduce_scatter(host, on_host(in)), {{out, host}});
}

Pending StagedCommunicator::all_to_all(at::Tensor out, at::Tensor in) {
    const at::Tensor host = room_on_host(out);
    return copied_back(of_host_->all_to_all(host, on_host(in)), {{out, host}});
}

Pending StagedCommunicator::all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                                              RowCounts sent) {
    const at::Tensor host = room_on_host(out);
    return copied_back(
        of_host_->all_to_all_uneven(host, std::move(received), on_host(in), std::move(sent)),
        {{out, host}});
}

Pending StagedCommunicator::shift(std::vector<Exchange> exchanges) {
    std::vector<Exchange> on_hosts;
    std::vector<Arrival> arrivals;
    for (const auto& [send, receive] : exchanges) {
        const at::Tensor host = room_on_host(receive);
        on_hosts.push_back({on_host(send), host});
        arrivals.push_back({receive, host});
    }
    return copied_back(of_host_->shift(std::move(on_hosts)), std::move(arrivals));
}

Pending StagedCommunicator::broadcast(at::Tensor in_out, int root) {
    const at::Tensor host = on_host(in_out);
    return copied_back(of_host_->broadcast(host, root), {{in_out, host}});
}

}  // namespace ringshard::comm
