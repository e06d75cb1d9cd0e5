#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/comm/pending.hpp"

namespace ringshard::comm {

// The buffers of shift(): `send` goes to the next rank, `receive` is filled by the previous one.
struct Exchange {
    at::Tensor send;
    at::Tensor receive;
};

// Rows, of the first dimension of a tensor, for each rank.
using RowCounts = std::vector<int64_t>;

// The collectives on tensors. Every call is collective over the communicator, comes in the same
// order on all its ranks, and returns before the operation has ended. Tensors are contiguous and of
// type fp32, bf16, int32, int64 or uint8; sums wrap around or round as their type does. At size 1
// every operation exists too, as a copy or as nothing. Sums only: the caller knows the divisor.
class Communicator {
public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;

    virtual Pending all_reduce(at::Tensor in_out) = 0;
    // Rank r's `in` becomes part r of everybody's `out`. `in` may be that very part of `out`.
    virtual Pending all_gather(at::Tensor out, at::Tensor in) = 0;
    // The sum over ranks of part r of `in` becomes rank r's `out`.
    virtual Pending reduce_scatter(at::Tensor out, at::Tensor in) = 0;
    // Part p of rank r's `in` becomes part r of rank p's `out`.
    virtual Pending all_to_all(at::Tensor out, at::Tensor in) = 0;
    // The same with parts of any numbers of rows, in the order of ranks: `received[r]` is what rank
    // r has in its `sent` for this rank.
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
    // Delay of every message between neighbours, over MPI: for tests.
    std::chrono::microseconds test_delay;
    // Tensors of a GPU go over MPI: for ranks that share one.
    bool by_way_of_host;
};
// Makes a communicator over NCCL for a CUDA device, over MPI for the CPU, and of copies for a group
// of one rank. It owns the group: nothing else may use it. NCCL connects with the first operation,
// so a group without tensors costs nothing there. Collective over the group.
std::unique_ptr<Communicator> make_communicator(Group group, at::Device device,
                                                const CommunicatorOptions& options = {});

// Makes a communicator of this rank alone. Not collective.
std::unique_ptr<Communicator> make_self_communicator(at::Device device);

}  // namespace ringshard::comm
