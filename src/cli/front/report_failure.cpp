#include "ringshard/cli/report_failure.hpp"

#include <iostream>

#include "ringshard/base/shown.hpp"

namespace ringshard::cli {

int report_failure(const Failure& failure) {
    std::cerr << "trainer: " << shown_message(failure.message) << std::endl;
    return number(failure.code);
}

int report_failure(const comm::AgreedFailure& failure, const comm::Group& world) {
    return world.is_root() ? report_failure(static_cast<const Failure&>(failure))
                           : number(failure.code());
}

}  // namespace ringshard::cli
