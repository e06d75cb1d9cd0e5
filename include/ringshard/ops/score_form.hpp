#pragma once

#include <cmath>
#include <cstdint>

namespace ringshard::ops {

// How the product of a query and a key becomes a score: cap * tanh(scale * product / cap).
struct ScoreForm {
    double scale = 0;  // 0: 1 / sqrt(head_dim)
    double cap = 0;    // 0: none
    bool operator==(const ScoreForm&) const = default;

    double scale_of(int64_t head_dim) const {
        return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(head_dim));
    }
};

}  // namespace ringshard::ops
