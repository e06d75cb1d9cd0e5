#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "ringshard/base/terminate.hpp"

namespace ringshard {

void leave_process(int status) {
    std::cout.flush();
    std::fflush(nullptr);
    std::_Exit(status);
}

}  // namespace ringshard
