#pragma once

// Included before the sources that have streams of a GPU: in the model of streams the CPU is the
// GPU, and so these sources take tensors of the CPU.
#include <ATen/core/Tensor.h>

#include "ringshard/comm/communicator.hpp"
#include "ringshard/model/recorder.hpp"
#include "ringshard/offload/host_offload_store.hpp"

#define is_cuda is_cpu
#define kCUDA kCPU
