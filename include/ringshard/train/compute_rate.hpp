#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "ringshard/ops/gemm.hpp"

namespace ringshard::train {

// Measures the floating-point operations per second of this rank in a large matrix product, the
// 100% of its utilisation (mfu). Takes some milliseconds.
double measured_peak(const ops::Gemms& gemms, c10::Device device, c10::ScalarType type);

}  // namespace ringshard::train
