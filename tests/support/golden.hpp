#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace ringshard::test {

// Numbers made by the real libraries; see tests/parity/README.md.
std::filesystem::path golden_folder();

// All tensors of a safetensors file, of any type.
std::map<std::string, at::Tensor> read_golden(const std::filesystem::path& file);

// |a - b| / |b| in the l2 norm, in double precision.
double relative_distance(const at::Tensor& a, const at::Tensor& b);
double largest_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace ringshard::test
