#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ringshard::data {

// A run of tokens of the documents of a dataset.
struct Piece {
    uint64_t begin = 0;  // counted over all documents, one after another
    uint32_t length = 0;
    // 1: the tokens of the piece before are seen from here; 0: here a document begins.
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

// Which tokens make up each row that training sees.
struct RowPlan {
    std::vector<uint64_t> row_starts{0};  // in pieces; one more than there are rows
    std::vector<Piece> pieces;

    int64_t size() const { return static_cast<int64_t>(row_starts.size()) - 1; }
    std::span<const Piece> row(int64_t number) const {
        const auto i = static_cast<uint64_t>(number);
        return std::span(pieces).subspan(row_starts[i], row_starts[i + 1] - row_starts[i]);
    }
    void end_row() { row_starts.push_back(pieces.size()); }
};

}  // namespace ringshard::data
