#include "ringshard/train/compute_rate.hpp"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>

#include <algorithm>

#include "ringshard/base/timer.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::train {

double measured_peak(const ops::Gemms& gemms, c10::Device device, c10::ScalarType type) {
    const int64_t size = device.is_cpu() ? 512 : 8192;
    constexpr int rounds = 6;
    // Random: products of ones heat a GPU less, which then runs a tenth faster than any training.
    at::Generator own = at::globalContext().defaultGenerator(device).clone();
    const at::Tensor a = at::randn({size, size}, own, at::TensorOptions(device).dtype(type));
    const double operations = 2.0 * static_cast<double>(size * size * size);
    double peak = 0;
    for (int round = 0; round < rounds; ++round) {
        const Timer timer;
        // Reading one number waits for the device.
        ops::linear(gemms, a, a)[0][0].item();
        peak = std::max(peak, operations / timer.seconds());
    }
    return peak;
}

}  // namespace ringshard::train
