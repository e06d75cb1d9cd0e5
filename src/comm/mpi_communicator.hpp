#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "ring.hpp"
#include "ringshard/comm/communicator.hpp"
#include "worker.hpp"

namespace ringshard::comm {

// Tensors in host memory over MPI, between two or more ranks. A worker thread with an MPI
// communicator of its own runs the operations in order, while the rank computes.
class MpiCommunicator final : public Communicator {
public:
    // How messages go, for tests.
    struct Link {
        // A sleep before every operation, times its number of messages to neighbours.
        std::chrono::microseconds delay{};
        std::chrono::duration<double> delay_of_byte{};         // the same for each of its bytes
        size_t longest_message = RingPlace().longest_message;  // longer ones go in pieces
    };
    MpiCommunicator(Group group, const Link& link)
        : group_(std::move(group)),
          ring_{group_.handle(), group_.rank(), group_.size(), link.longest_message},
          link_(link) {}

    int rank() const override { return group_.rank(); }
    int size() const override { return group_.size(); }
    Pending all_reduce(at::Tensor in_out) override;
    Pending all_gather(at::Tensor out, at::Tensor in) override;
    Pending reduce_scatter(at::Tensor out, at::Tensor in) override;
    Pending all_to_all(at::Tensor out, at::Tensor in) override;
    Pending all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                              RowCounts sent) override;
    Pending shift(std::vector<Exchange> exchanges) override;
    Pending broadcast(at::Tensor in_out, int root) override;

private:
    // Runs the task, which owns the tensors, on the worker.
    Pending start(const char* what, size_t bytes, std::function<void()> task);

    // Sends sent[r] to rank r and receives received[r] from rank r. Runs on the worker.
    void exchange_parts(const std::vector<std::span<std::byte>>& received,
                        const std::vector<std::span<std::byte>>& sent);

    Group group_;
    RingPlace ring_;
    Link link_;
    RingBuffers ring_buffers_;  // only the worker uses them
    Worker worker_;             // last: it ends before the members that its tasks use
};

}  // namespace ringshard::comm
