#include "mpi_communicator.hpp"
#include "ringshard/base/error.hpp"

namespace ringshard::comm {

std::unique_ptr<Communicator> make_communicator(Group group, at::Device device,
                                                std::chrono::microseconds test_delay) {
    RINGSHARD_CHECK(device.is_cpu(), "this program was built without CUDA: use the preset `cuda`");
    return std::make_unique<MpiCommunicator>(std::move(group), test_delay);
}

}  // namespace ringshard::comm
