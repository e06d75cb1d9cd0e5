#pragma once

#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>
#include <string_view>

namespace ringshard::test {

// True with `-- small` behind the program's name: for compute-sanitizer, under which a kernel takes
// a hundred times as long.
inline bool is_small() {
    const auto& suite = boost::unit_test::framework::master_test_suite();
    return suite.argc > 1 && std::string_view(suite.argv[suite.argc - 1]) == "small";
}

// False for a shape that is too large for compute-sanitizer.
inline bool has_time_for(int64_t rows, int64_t columns) {
    return !is_small() || (rows <= 300 && columns <= 256);
}

// Cases of the libraries' kernels, at which compute-sanitizer has nothing of ours to look.
inline boost::test_tools::assertion_result is_whole(boost::unit_test::test_unit_id) {
    return !is_small();
}

inline double distance(const at::Tensor& ours, const at::Tensor& reference) {
    const at::Tensor wide = reference.to(at::kDouble);
    return ((ours.cpu().to(at::kDouble) - wide).norm() / wide.norm().clamp_min(1e-30))
        .item<double>();
}

}  // namespace ringshard::test
