#pragma once

#include <optional>

#include "ringshard/data/row_plan.hpp"
#include "ringshard/data/token_store.hpp"

namespace ringshard::data {

// A micro-batch before it is cut over a sequence group: one list of the tokens of all its
// documents.
struct FlatBatch {
    std::vector<int64_t> tokens;
    std::vector<int64_t> targets;  // the next token of the document, or no_label
    std::vector<float> weights{};  // of the targets' losses; empty: 1 each
    std::vector<int64_t> document_starts;
    // A row of the dataset and where it begins in the list.
    struct RowStart {
        int64_t row;
        int64_t begin;
    };
    std::vector<RowStart> row_starts{};
    int64_t num_targets() const;
    double target_weight() const;  // of all targets
    // As TRL counts: where rows are flattened, what fills them up to a multiple counts as well.
    int64_t num_counted() const { return static_cast<int64_t>(tokens.size()) + counted_padding; }
    int64_t counted_padding = 0;
    void count_padding(int64_t multiple) {
        const auto length = static_cast<int64_t>(tokens.size());
        counted_padding = (length + multiple - 1) / multiple * multiple - length;
    }
};

// The rows that training sees: tokens, and the plan that says which of them make up each row.
class Rows {
public:
    Rows(TokenStore store, RowPlan plan);
    static Expected<Rows> of(const ArrayFile& store, const ArrayFile& plan);
    static Expected<Rows> map(const std::filesystem::path& store,
                              const std::filesystem::path& plan);

    int64_t size() const { return static_cast<int64_t>(row_starts_.size()) - 1; }
    int64_t length(int64_t row) const;
    std::span<const Piece> pieces(int64_t row) const;
    const TokenStore& store() const { return store_; }
    // As the file of the plan names them; a file of an older version has none, and all rows are
    // looked at.
    RowTotals totals() const;
    // How the rows were made, as JSON; empty for rows in memory.
    const std::string& about() const { return about_; }

    // To its end. Throws where the row names tokens that are not there, or ids that no vocabulary
    // of this size has: see TokenStore::check_ids().
    void append(int64_t row, FlatBatch& batch) const;

private:
    Rows(TokenStore store, const ArrayFile& plan);
    TokenStore store_;
    std::filesystem::path name_ = "rows in memory";
    std::string about_;
    std::optional<RowTotals> totals_;
    std::shared_ptr<const void> owner_;  // of what the spans show
    std::span<const uint64_t> row_starts_;
    std::span<const Piece> pieces_;
};

FlatBatch flatten(const Rows& rows, std::span<const int64_t> numbers);

}  // namespace ringshard::data
