#pragma once

#include <ATen/core/Tensor.h>

#include <numeric>
#include <vector>

#include "ringshard/base/error.hpp"

namespace ringshard::comm {

// Checks common to the tensors of all backends.
inline void check_tensor(const at::Tensor& tensor, at::DeviceType device) {
    RINGSHARD_CHECK(tensor.defined() && tensor.is_contiguous(),
                    "tensors that travel are contiguous");
    RINGSHARD_CHECK(tensor.device().type() == device, "tensor on {}, communicator for {}",
                    tensor.device(), c10::DeviceTypeName(device));
    const auto type = tensor.scalar_type();
    RINGSHARD_CHECK(type == at::kFloat || type == at::kDouble || type == at::kBFloat16 ||
                        type == at::kInt || type == at::kLong || type == at::kByte,
                    "tensors of type {} do not travel", c10::toString(type));
}

// Checks that `whole` holds one `part` for each rank.
inline void check_parts(const at::Tensor& whole, const at::Tensor& part, int size,
                        at::DeviceType device) {
    check_tensor(whole, device);
    check_tensor(part, device);
    RINGSHARD_CHECK(whole.scalar_type() == part.scalar_type(), "types differ");
    RINGSHARD_CHECK(whole.numel() == part.numel() * size, "{} elements are not {} times {}",
                    whole.numel(), size, part.numel());
}

// Checks that `rows` has a number for each rank, and that `tensor` has the rows of all.
inline void check_rows(const at::Tensor& tensor, const std::vector<int64_t>& rows, int size,
                       at::DeviceType device) {
    check_tensor(tensor, device);
    RINGSHARD_CHECK(std::ssize(rows) == size, "{} numbers of rows for {} ranks", rows.size(), size);
    const int64_t sum = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    RINGSHARD_CHECK(tensor.dim() > 0 && tensor.size(0) == sum, "parts have {} rows", sum);
}

}  // namespace ringshard::comm
