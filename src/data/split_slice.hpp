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

// Rows of a split in the notation of `datasets`: "train", "train[:10%]", "train[-500:]".
struct SplitSlice {
    std::string split{};
    std::optional<int64_t> from{};  // negative: from the end; unset: from the first row
    std::optional<int64_t> to{};
    bool is_percent = false;
    // (pct1_dropremainder): a percent is a whole number of rows, and the slice drops the remainder.
    bool drops_remainder = false;

    bool takes_all() const { return !from && !to; }
    // Returns how many rows of the split to count to know the slice; nothing if all of them.
    std::optional<int64_t> rows_to_count() const;
};

// Returns the slices of a sum, "a[:10]+b[10%:]", in order. Fails on syntax that `datasets` refuses,
// and on percents beside row numbers within one slice; the message has no place.
Expected<std::vector<SplitSlice>> read_splits(const std::string& text);

// Returns the rows of the slice in a split of num_rows rows, rounded and clamped as `datasets`
// does; begin >= end if there are none. Fails on percents without remainder of fewer than 100 rows.
Expected<RowRange> rows_of(const SplitSlice& slice, int64_t num_rows);

// Returns true if the slice goes beyond the last row, where `datasets` truncates silently.
bool reaches_beyond(const SplitSlice& slice, int64_t num_rows);

std::string to_text(const SplitSlice& slice);

}  // namespace ringshard::data
