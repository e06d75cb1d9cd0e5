#include "mpi_communicator.hpp"
#include "tried_communicator.hpp"

namespace ringshard::test {

// Messages of a few hundred bytes, as if MPI could count no further: longer ones go in pieces, the
// last one shorter.
std::unique_ptr<comm::Communicator> make_tried_communicator(comm::Group group) {
    return std::make_unique<comm::MpiCommunicator>(
        std::move(group), comm::MpiCommunicator::Link{.longest_message = 300});
}

}  // namespace ringshard::test
