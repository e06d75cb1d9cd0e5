#include "ringshard/cli/tell.hpp"

#include <iostream>

namespace ringshard::cli {

int tell(const Failure& failure) {
    std::cerr << "trainer: " << failure.message << std::endl;
    return number(failure.code);
}

int tell(const comm::AgreedFailure& failure, const comm::Group& world) {
    return world.is_root() ? tell(static_cast<const Failure&>(failure)) : number(failure.code());
}

}  // namespace ringshard::cli
