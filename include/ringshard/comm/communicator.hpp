#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/comm/pending.hpp"

namespace ringshard::comm {

// Buffers of shift(): rank r sends `send` to rank r + 1, and fills `receive` from rank r - 1, round
// the ring.
struct Exchange {
    at::Tensor send;
    at::Tensor receive;
};

// Numbers of rows (of the first dimension of a tensor), by rank.
using RowCounts = std::vector<int64_t>;

// Collectives on tensors. All ranks of the communicator make the same calls in the same order;
// calls return before the operation has ended. Tensors are contiguous and of type fp32, bf16,
// int32, int64 or uint8; sums wrap around or round as their type does. At size 1 every operation
// works too, as a copy or a no-op. Reductions are sums: the caller divides.
class Communicator {
public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;

    virtual Pending all_reduce(at::Tensor in_out) = 0;
    // Copies rank r's `in` into part r of `out` on every rank. `in` may be that part of `out`.
    virtual Pending all_gather(at::Tensor out, at::Tensor in) = 0;
    // Writes the sum over ranks of part r of `in` into `out` on rank r.
    virtual Pending reduce_scatter(at::Tensor out, at::Tensor in) = 0;
    // Copies part p of rank r's `in` into part r of rank p's `out`.
    virtual Pending all_to_all(at::Tensor out, at::Tensor in) = 0;
    // An all_to_all whose parts have any number of rows, in the order of ranks: `received[r]` on
    // this rank equals rank r's `sent` for this rank.
    virtual Pending all_to_all_uneven(at::Tensor out, RowCounts received, at::Tensor in,
                                      RowCounts sent) = 0;
    virtual Pending shift(std::vector<Exchange> exchanges) = 0;
    virtual Pending broadcast(at::Tensor in_out, int root) = 0;

protected:
    Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
};

struct CommunicatorOptions {
    // Delay of every message between neighbours over MPI, for tests.
    std::chrono::microseconds test_delay;
    // Sends CUDA tensors over MPI through host memory, for ranks that share a GPU.
    bool by_way_of_host;
};
// Makes a communicator over NCCL for a CUDA device, over MPI for the CPU, and of copies for a group
// of one rank. It owns the group: nothing else may use the group. NCCL connects with the first
// operation, so a group that never sends tensors costs nothing there. Collective over the group.
std::unique_ptr<Communicator> make_communicator(Group group, at::Device device,
                                                const CommunicatorOptions& options = {});

// Makes a communicator of this rank alone. Not collective.
std::unique_ptr<Communicator> make_self_communicator(at::Device device);

}  // namespace ringshard::comm
