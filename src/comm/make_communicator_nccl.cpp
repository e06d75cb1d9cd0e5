#include "mpi_communicator.hpp"
#include "nccl_communicator.hpp"

// For programs that are built with CUDA; they run on the CPU too.
namespace ringshard::comm {

std::unique_ptr<Communicator> make_communicator(Group group, at::Device device,
                                                std::chrono::microseconds test_delay) {
    if (device.is_cuda()) return std::make_unique<NcclCommunicator>(std::move(group), device);
    return std::make_unique<MpiCommunicator>(std::move(group), test_delay);
}

}  // namespace ringshard::comm
