#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ringshard::ops {

// Calls work(group, first row, number of rows) for each group that has rows.
template <class Work>
void for_groups(const std::vector<int64_t>& counts, Work work) {
    int64_t begin = 0;
    for (size_t group = 0; group < counts.size(); ++group) {
        if (counts[group] > 0) work(static_cast<int64_t>(group), begin, counts[group]);
        begin += counts[group];
    }
}

// Zeroes the sums of groups without rows, which no product begins.
inline void begin_empty_groups(const at::Tensor& sums, const std::vector<int64_t>& counts) {
    for (size_t group = 0; group < counts.size(); ++group)
        if (counts[group] == 0) sums.select(0, static_cast<int64_t>(group)).zero_();
}

}  // namespace ringshard::ops
