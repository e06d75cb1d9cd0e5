#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ringshard/base/expected.hpp"

namespace ringshard::offload {

// Number of what is on its way, in or out.
using Transfer = uint64_t;

// A place beside the memory that computes, for what is not needed now: a file of the rank, or the
// memory of the host beside a GPU. What goes there and comes back does so while the rank computes.
class Depot {
public:
    virtual ~Depot() = default;

    // So many bytes more, zeros until they are written; where they begin, a multiple of a page.
    // First everybody asks, then all of it is made at once: it fails where there is no room.
    virtual int64_t reserve(int64_t bytes) = 0;
    virtual std::optional<Failure> allocate() = 0;
    virtual int64_t bytes() const = 0;

    // A tensor, where the rank computes, that can go to the depot and come from it.
    virtual at::Tensor room(int64_t elements, at::ScalarType type) = 0;
    // Rooms of other sizes will be asked for from now on.
    virtual void forget_free_rooms() = 0;

    // The first `bytes` of a room, from or to an offset. The room must stay until the transfer was
    // waited for. What computes on a room after wait() comes after the transfer.
    virtual Transfer read(const at::Tensor& room, int64_t bytes, int64_t offset) = 0;
    virtual Transfer write(const at::Tensor& room, int64_t bytes, int64_t offset) = 0;
    virtual void wait(Transfer transfer) = 0;

    virtual std::string describe() const = 0;

protected:
    Depot() = default;
    Depot(const Depot&) = delete;
    Depot& operator=(const Depot&) = delete;
};

}  // namespace ringshard::offload
