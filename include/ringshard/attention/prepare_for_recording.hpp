#pragma once

#include <c10/core/Device.h>

namespace ringshard::attention {

// Does what the kernels of a GPU do once in a process, which must not be part of a recording.
void prepare_for_recording(c10::Device device);

}  // namespace ringshard::attention
