#include "self_communicator.hpp"

#include "check_tensors.hpp"

namespace ringshard::comm {

Pending SelfCommunicator::copy(const at::Tensor& to, const at::Tensor& from) const {
    check_parts(to, from, size(), device_);
    // For an in-place operation the part is the whole: launch no kernel.
    if (to.data_ptr() != from.data_ptr()) to.view({-1}).copy_(from.view({-1}));
    return {};
}

Pending SelfCommunicator::all_reduce(at::Tensor in_out) {
    check_tensor(in_out, device_);
    return {};
}

Pending SelfCommunicator::all_gather(at::Tensor out, at::Tensor in) { return copy(out, in); }

Pending SelfCommunicator::reduce_scatter(at::Tensor out, at::Tensor in) { return copy(out, in); }

Pending SelfCommunicator::all_to_all(at::Tensor out, at::Tensor in) { return copy(out, in); }

Pending SelfCommunicator::all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                                            RowCounts sent) {
    check_rows(out, received, size(), device_);
    check_rows(in, sent, size(), device_);
    return copy(out, in);
}

Pending SelfCommunicator::shift(std::vector<Exchange> exchanges) {
    for (const auto& [send, receive] : exchanges) copy(receive, send).wait();
    return {};
}

Pending SelfCommunicator::broadcast(at::Tensor in_out, int) {
    check_tensor(in_out, device_);
    return {};
}

std::unique_ptr<Communicator> make_self_communicator(at::Device device) {
    return std::make_unique<SelfCommunicator>(device);
}

}  // namespace ringshard::comm
