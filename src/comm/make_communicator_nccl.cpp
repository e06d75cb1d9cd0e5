#include "mpi_communicator.hpp"
#include "nccl_communicator.hpp"
#include "staged_communicator.hpp"

// For builds with CUDA, which run on the CPU too.
namespace ringshard::comm {

std::unique_ptr<Communicator> make_communicator(Group group, at::Device device,
                                                const CommunicatorOptions& options) {
    if (group.size() == 1) return make_self_communicator(device);
    if (device.is_cuda() && !options.by_way_of_host)
        return std::make_unique<NcclCommunicator>(std::move(group), device);
    auto of_host = std::make_unique<MpiCommunicator>(
        std::move(group), MpiCommunicator::Link{.delay = options.test_delay});
    if (options.by_way_of_host) return std::make_unique<StagedCommunicator>(std::move(of_host));
    return of_host;
}

}  // namespace ringshard::comm
