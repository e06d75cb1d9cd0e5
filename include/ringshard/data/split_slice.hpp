#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

struct RowRange {
    int64_t begin = 0;
    int64_t end = 0;
    bool operator==(const RowRange&) const = default;
};

// Rows of a split as `datasets` names them: "train", "train[:10%]", "train[-500:]".
struct SplitSlice {
    std::string split{};
    std::optional<int64_t> from{};  // below 0: counted from the end; unset: from the first row on
    std::optional<int64_t> to{};
    bool is_percent = false;
    // (pct1_dropremainder): a percent is a whole number of rows, and the remainder is left out.
    bool drops_remainder = false;

    bool takes_all() const { return !from && !to; }
    // How many rows of the split have to be counted to know the slice; unset: all of them.
    std::optional<int64_t> rows_to_count() const;
};

// The slices of a sum, "a[:10]+b[10%:]", in order. Fails, without a place, on what `datasets` does
// not take, and on percents beside row numbers within one slice.
Expected<std::vector<SplitSlice>> read_splits(const std::string& text);

// Returns the rows of the slice in a split of so many rows, rounded and cut as `datasets` does;
// begin >= end where there are none. Fails on percents without remainder of fewer than 100 rows.
Expected<RowRange> rows_of(const SplitSlice& slice, int64_t num_rows);

// Whether the slice names rows beyond the last one, which `datasets` leaves out in silence.
bool reaches_beyond(const SplitSlice& slice, int64_t num_rows);

std::string to_text(const SplitSlice& slice);

}  // namespace ringshard::data
