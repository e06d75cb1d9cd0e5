#pragma once

#include <cmath>

namespace ringshard::model {

inline double sigmoid(double x) {
    return x >= 0 ? 1 / (1 + std::exp(-x)) : 1 - 1 / (1 + std::exp(x));
}
// -log sigmoid(x)
inline double minus_log_sigmoid(double x) {
    return x >= 0 ? std::log1p(std::exp(-x)) : std::log1p(std::exp(x)) - x;
}

}  // namespace ringshard::model
