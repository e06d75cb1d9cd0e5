#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

// Collectives made of messages between neighbours. They move bytes; only the adder knows types.
// Collective over the communicator; all block and sleep while they wait.
namespace ringshard::comm {

struct RingPlace {
    MPI_Comm communicator = MPI_COMM_NULL;
    int rank = 0;
    int size = 1;
    size_t longest_message = size_t{1} << 30;  // bytes: MPI counts them in an int
    int next() const { return (rank + 1) % size; }
    int previous() const { return (rank + size - 1) % size; }
};

// Receive buffers, kept between calls: the page faults of fresh ones cost more than the sums.
using RingBuffers = std::array<std::vector<std::byte>, 3>;

using Adder = std::function<void(std::byte* into, const std::byte* from, size_t bytes)>;

// All-gather: sends parts[r] of rank r round the ring until every rank has all parts.
void ring_all_gather(const RingPlace& ring, const std::vector<std::span<std::byte>>& parts);

// Reduce-scatter: writes the sum over ranks of parts[r] into `out` on rank r. `parts` are only
// read.
void ring_reduce_scatter(const RingPlace& ring, std::span<std::byte> out,
                         const std::vector<std::span<const std::byte>>& parts, const Adder& add,
                         RingBuffers& buffers);

// Reduces in place: parts[r] of rank r receives the sum; the other parts stay unchanged.
void ring_reduce_in_place(const RingPlace& ring, const std::vector<std::span<std::byte>>& parts,
                          const Adder& add, RingBuffers& buffers);

// Sends messages of any length, in pieces that MPI can count. The caller waits for the requests.
void start_send(const RingPlace& ring, std::span<const std::byte> bytes, int to,
                std::vector<MPI_Request>& requests);
void start_receive(const RingPlace& ring, std::span<std::byte> bytes, int from,
                   std::vector<MPI_Request>& requests);

}  // namespace ringshard::comm
