#pragma once

#include <cmath>

#include "ringshard/base/text.hpp"

namespace ringshard {

// JSON has no word for a number that is not finite.
inline std::string json_number(double number) {
    return std::isfinite(number) ? concat(number) : "null";
}

}  // namespace ringshard
