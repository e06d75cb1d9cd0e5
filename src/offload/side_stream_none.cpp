#include "host_copies.hpp"
#include "ringshard/base/error.hpp"

// For builds without CUDA.
namespace ringshard::offload {

std::unique_ptr<SideStream> make_side_stream(at::Device device) {
    RINGSHARD_CHECK(device.is_cpu(), "a stream of {}", device.str());
    return std::make_unique<HostCopies>();
}

}  // namespace ringshard::offload
