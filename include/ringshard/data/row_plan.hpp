#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ringshard::data {

// Contiguous tokens of the documents of a dataset.
struct Piece {
    uint64_t begin = 0;  // position in the concatenation of all documents
    uint32_t length = 0;
    // 1: attends to the tokens of the piece before; 0: a document begins here.
    uint32_t goes_on = 0;

    bool operator==(const Piece&) const = default;
};

// Sums and maxima over rows, in tokens.
struct RowTotals {
    int64_t tokens = 0;
    int64_t longest_row = 0;
    int64_t longest_document = 0;  // within one row

    void add(std::span<const Piece> row) {
        int64_t length = 0;
        int64_t document = 0;
        for (const Piece& piece : row) {
            length += piece.length;
            document = piece.length + (piece.goes_on != 0 ? document : 0);
            longest_document = std::max(longest_document, document);
        }
        tokens += length;
        longest_row = std::max(longest_row, length);
    }
    bool operator==(const RowTotals&) const = default;
};

// The tokens of each row of training.
struct RowPlan {
    std::vector<uint64_t> row_starts{0};  // index into `pieces`; one more entry than rows
    std::vector<Piece> pieces;

    int64_t size() const { return static_cast<int64_t>(row_starts.size()) - 1; }
    std::span<const Piece> row(int64_t number) const {
        const auto i = static_cast<uint64_t>(number);
        return std::span(pieces).subspan(row_starts[i], row_starts[i + 1] - row_starts[i]);
    }
    void end_row() { row_starts.push_back(pieces.size()); }
};

}  // namespace ringshard::data
