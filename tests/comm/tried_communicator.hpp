#pragma once

#include "ringshard/comm/communicator.hpp"

namespace ringshard::test {

// The communicator that communicator_test.cpp tries. Collective over the group.
std::unique_ptr<comm::Communicator> make_tried_communicator(comm::Group group);

}  // namespace ringshard::test
