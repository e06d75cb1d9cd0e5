#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ringshard/comm/communicator.hpp"

namespace ringshard::comm {

// Tensors on GPUs over NCCL. It connects with its first operation, since NCCL takes memory and time
// for each communicator. Operations run on the communicator's own stream, after the work that the
// caller's current stream holds; wait() makes the current stream wait, never the host.
class NcclCommunicator final : public Communicator {
public:
    // spans_hosts: whether products leave NCCL its multiprocessors; found out when it connects
    // unless it is given.
    NcclCommunicator(Group group, at::Device device, std::optional<bool> spans_hosts = {});
    ~NcclCommunicator() override;

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
    class EventCompletion;
    // An operation whose end the flight recorder does not have yet.
    struct UnderWay {
        int64_t number;
        const char* what;
        std::shared_ptr<at::cuda::CUDAEvent> end;
    };
    // A wait of the stream that computes, as long as the time between two events on it.
    struct Stall {
        at::cuda::CUDAEvent begin{cudaEventDefault};
        at::cuda::CUDAEvent end{cudaEventDefault};
    };
    void connect();  // collective over the group
    // beside_products: the number that an operation beside products got; 0 for any other one.
    void wait_for(at::cuda::CUDAEvent& end, int64_t beside_products);
    void count_stalls();
    bool takes_multiprocessors() const;
    void leave_multiprocessors(int count) const;
    bool has_newest_beside_products(int64_t number) const;  // of all groups
    void free_multiprocessors() const noexcept;
    template <class Enqueue>
    Pending start(const char* what, std::vector<at::Tensor> tensors, Enqueue enqueue);
    void refresh();
    cudaError_t note_what_has_ended();  // the error of a broken CUDA context
    void throw_if_a_peer_is_lost();

    Group group_;
    at::Device device_;
    c10::cuda::CUDAStream stream_;
    ncclComm_t communicator_ = nullptr;  // nullptr before the first operation
    std::string name_;                   // of the group, for messages
    std::optional<bool> spans_hosts_;
    int64_t last_beside_products_ = 0;  // number of its last operation beside products; 0: none
    std::mutex mutex_;                  // guards under_way_: the watchdog thread reads it too
    std::deque<UnderWay> under_way_;
    std::deque<Stall>
        stalls_;  // that the flight recorder does not have yet; of the training thread
};

}  // namespace ringshard::comm
