#include <cstdlib>

#include "ringshard/base/terminate.hpp"

namespace ringshard {

void leave_process(int status) { std::exit(status); }

}  // namespace ringshard
