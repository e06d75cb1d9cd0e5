#pragma once

#include <cstdint>

namespace ringshard::ops {

// The keys of a tile that a query sees: query i sees the keys j with i - back <= j <= i + ahead.
struct Band {
    static constexpr int64_t unlimited = int64_t{1} << 40;  // longer than any sequence

    int64_t back = unlimited;
    int64_t ahead = unlimited;
    bool operator==(const Band&) const = default;
};
inline constexpr Band every_key{};
inline constexpr Band causal{.back = Band::unlimited, .ahead = 0};

// Returns true if the kernels of every library have this mask.
inline bool is_common(const Band& band) { return band == every_key || band == causal; }

}  // namespace ringshard::ops
