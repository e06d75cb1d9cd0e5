#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "ringshard/base/expected.hpp"

namespace ringshard::data {

// A row as training sees it. A row is one document or several packed ones.
struct RowView {
    std::span<const int32_t> tokens;
    std::span<const int32_t> targets;           // the next token of the document, or -100
    std::span<const int32_t> document_lengths;  // add up to the row
};

// Rows of any length, one after another.
class TokenRows {
public:
    // labels: what each token is to be predicted as, -100 for none; shifted here, within documents.
    void add(std::span<const int32_t> tokens, std::span<const int32_t> labels,
             std::span<const int32_t> document_lengths);

    int64_t size() const { return static_cast<int64_t>(row_starts_.size()) - 1; }
    RowView operator[](int64_t row) const;

private:
    std::vector<int32_t> tokens_;
    std::vector<int32_t> targets_;
    std::vector<int32_t> document_lengths_;
    std::vector<int64_t> row_starts_{0};
    std::vector<int64_t> document_starts_{0};
};

// Rows of a JSONL file with input_ids and, if they are to differ from them, labels; seq_lengths
// where a row holds several documents. Rows are cut to max_length; rows without any label are left
// out.
Expected<TokenRows> read_pretokenized(const std::filesystem::path& file,
                                      std::optional<int64_t> max_length, int64_t vocabulary);

}  // namespace ringshard::data
