#include <ATen/ops/linspace.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ringshard/ops/updates.hpp"

namespace ringshard::ops {

// Decades from 1e-6 on, each with twice as many values as the one below: the middles of equal steps
// from a tenth of it.
at::Tensor moment_values(bool is_signed, at::Device device) {
    constexpr int decades = 7;
    std::vector<float> values{0, 1};
    for (int decade = 0; decade < decades; ++decade) {
        const int64_t steps = int64_t{1} << (decade + (is_signed ? 0 : 1));
        const at::Tensor ends = at::linspace(0.1, 1, steps + 1, at::TensorOptions(at::kFloat));
        const at::Tensor middles = (ends.narrow(0, 0, steps) + ends.narrow(0, 1, steps)) / 2.0 *
                                   std::pow(10.0, decade - 6);
        for (int64_t i = 0; i < steps; ++i) {
            values.push_back(middles[i].item<float>());
            if (is_signed) values.push_back(-values.back());
        }
    }
    std::ranges::sort(values);
    at::Tensor map = at::empty({std::ssize(values)}, at::TensorOptions(at::kFloat));
    std::ranges::copy(values, map.data_ptr<float>());
    return map.to(device);
}

}  // namespace ringshard::ops
