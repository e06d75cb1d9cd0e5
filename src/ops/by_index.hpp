#pragma once

#include <ATen/core/Tensor.h>

// Operations on rows by LibTorch's operators, for every device.
namespace ringshard::ops {

at::Tensor take_rows_by_index(const at::Tensor& x, const at::Tensor& places);
at::Tensor sum_of_experts_by_index(const at::Tensor& rows, const at::Tensor& places);

}  // namespace ringshard::ops
