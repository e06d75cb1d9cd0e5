#pragma once

#include "ringshard/comm/mpi_session.hpp"

namespace ringshard::test {

// The world that mpi_main.cpp opened.
const comm::Group& world();

}  // namespace ringshard::test
