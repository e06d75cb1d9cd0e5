#pragma once

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <iostream>

namespace ringshard::test {

// Says that it was skipped where there is no GPU; ctest reads it.
inline boost::test_tools::assertion_result has_gpu(boost::unit_test::test_unit_id) {
    if (at::hasCUDA()) return true;
    std::cout << "no GPU here\n";
    return false;
}

inline double distance(const at::Tensor& ours, const at::Tensor& reference) {
    const at::Tensor wide = reference.to(at::kDouble);
    return ((ours.cpu().to(at::kDouble) - wide).norm() / wide.norm().clamp_min(1e-30))
        .item<double>();
}

}  // namespace ringshard::test
