#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "ringshard/ops/gemm.hpp"

namespace ringshard::train {

// Floating-point operations per second that this rank reaches in a large matrix product: what its
// utilisation is measured by. Takes some milliseconds.
double measured_peak(const ops::Gemms& gemms, c10::Device device, c10::ScalarType type);

}  // namespace ringshard::train
