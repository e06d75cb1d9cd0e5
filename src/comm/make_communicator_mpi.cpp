#include "mpi_communicator.hpp"
#include "ringshard/base/error.hpp"
#include "staged_communicator.hpp"

namespace ringshard::comm {

std::unique_ptr<Communicator> make_communicator(Group group, at::Device device,
                                                const CommunicatorOptions& options) {
    RINGSHARD_CHECK(device.is_cpu(), "this program was built without CUDA: use the preset `cuda`");
    if (group.size() == 1) return make_self_communicator(device);
    auto of_host = std::make_unique<MpiCommunicator>(
        std::move(group), MpiCommunicator::Link{.delay = options.test_delay});
    if (options.by_way_of_host) return std::make_unique<StagedCommunicator>(std::move(of_host));
    return of_host;
}

}  // namespace ringshard::comm
