#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ringshard/base/expected.hpp"

namespace ringshard::offload {

// Number of a read or write in flight.
using Transfer = uint64_t;

// Storage of a rank outside the device that computes, for offloaded state: a file, or host memory
// beside a GPU. Reads and writes run while the rank computes.
class OffloadStore {
public:
    virtual ~OffloadStore() = default;

    // Reserves `bytes` (zero-filled) and returns their offset, a multiple of a page. Call
    // allocate() once, after all reservations; it fails if there is not enough space.
    virtual int64_t reserve(int64_t bytes) = 0;
    virtual std::optional<Failure> allocate() = 0;
    virtual int64_t bytes() const = 0;

    // Returns a tensor on the device that computes, from and to which read() and write() copy.
    virtual at::Tensor staging_buffer(int64_t elements, at::ScalarType type) = 0;
    // Frees the staging buffers that no tensor holds. Call before taking buffers of other sizes.
    virtual void release_free_buffers() = 0;

    // Copies the first `bytes` of a staging buffer from or to an offset. The caller keeps the
    // buffer until wait() has returned; work on it that is queued after wait() runs after the copy.
    virtual Transfer read(const at::Tensor& buffer, int64_t bytes, int64_t offset) = 0;
    virtual Transfer write(const at::Tensor& buffer, int64_t bytes, int64_t offset) = 0;
    virtual void wait(Transfer transfer) = 0;

    virtual std::string describe() const = 0;

protected:
    OffloadStore() = default;
    OffloadStore(const OffloadStore&) = delete;
    OffloadStore& operator=(const OffloadStore&) = delete;
};

}  // namespace ringshard::offload
