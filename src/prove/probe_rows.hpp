#pragma once

#include <cstdint>

#include "ringshard/data/rows.hpp"

namespace ringshard::prove {

// Each sample as a row, as it is.
data::Rows one_row_each(data::SampleList samples, const data::RowContent& content = {});

enum class RowKind { one_document, packed, uneven, mixed };

// Random rows of one document, of several whose lengths divide nothing, by turns of one long
// document and of a few short ones, or by turns of all three; some labels are left out. longest: of
// a row, about.
data::Rows make_rows(RowKind kind, int64_t num_rows, int longest, int64_t vocabulary = 512,
                     uint32_t seed = 7);

// Random pairs of documents, or documents, with such labels: below this many where they are scored,
// and at all tokens but the last of some.
struct PairsOrLabels {
    data::RowContent content;
    int64_t num_labels;
};
data::Rows make_rows(const PairsOrLabels& wanted, int64_t num_rows, int longest, int64_t vocabulary,
                     uint32_t seed);

}  // namespace ringshard::prove
