#include "ringshard/train/compute_rate.hpp"

#include <ATen/ops/ones.h>

#include <algorithm>

#include "ringshard/base/timer.hpp"
#include "ringshard/ops/linear.hpp"

namespace ringshard::train {

double measured_peak(const ops::Gemms& gemms, c10::Device device, c10::ScalarType type) {
    const int64_t size = device.is_cpu() ? 512 : 8192;
    constexpr int rounds = 6;
    const at::Tensor a = at::ones({size, size}, at::TensorOptions(device).dtype(type));
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
