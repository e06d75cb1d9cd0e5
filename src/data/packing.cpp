#include "packing.hpp"

#include <algorithm>
#include <numeric>

#include "bit_set.hpp"
#include "ringshard/config/data_settings.hpp"

namespace ringshard::data {

namespace {

// Rows that still have space, found by that space.
class OpenRows {
public:
    explicit OpenRows(uint32_t max_length)
        : max_length_(max_length), lines_(max_length + size_t{1}), spaces_(max_length) {}

    // Returns the row for a document, which may be a new row.
    uint32_t place(uint32_t length) {
        const uint32_t space = spaces_.next(length);
        const uint32_t row = space == BitSet::none ? open() : leave_line(space);
        join_line((space == BitSet::none ? max_length_ : space) - length, row);
        return row;
    }
    uint32_t size() const { return static_cast<uint32_t>(next_in_line_.size()); }

    void clear() {
        for (uint32_t space = spaces_.next(1); space != BitSet::none; space = spaces_.next(space))
            leave_line(space);
        next_in_line_.clear();
    }

private:
    // Rows of equal space form a queue: first in, first out.
    struct Line {
        uint32_t first = 0;
        uint32_t last = 0;
    };
    uint32_t open() {
        next_in_line_.push_back(0);
        return size() - 1;
    }
    uint32_t leave_line(uint32_t space) {
        Line& line = lines_[space];
        const uint32_t row = line.first;
        if (row == line.last)
            spaces_.erase(space);
        else
            line.first = next_in_line_[row];
        return row;
    }
    void join_line(uint32_t space, uint32_t row) {
        if (space == 0) return;
        Line& line = lines_[space];
        if (spaces_.next(space) == space)
            next_in_line_[line.last] = row;
        else
            line.first = row;
        line.last = row;
        spaces_.insert(space);
    }

    uint32_t max_length_;
    std::vector<Line> lines_;  // by space
    std::vector<uint32_t> next_in_line_;
    BitSet spaces_;  // those that some row has
};

// Splits or truncates documents to fit a row; drops empty ones.
std::vector<Piece> cut_to_fit(std::span<const Piece> documents, uint32_t max_length, bool split) {
    std::vector<Piece> fitting;
    fitting.reserve(documents.size());
    for (Piece rest : documents) {
        while (rest.length > 0) {
            const uint32_t length = std::min(rest.length, max_length);
            fitting.push_back({rest.begin, length});
            rest = {rest.begin + length, split ? rest.length - length : 0};
        }
    }
    return fitting;
}

// Returns the order by descending length; equal lengths keep their order.
std::vector<uint32_t> longest_first(std::span<const Piece> pieces) {
    std::vector<uint64_t> keys(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i)
        keys[i] = uint64_t{UINT32_MAX - pieces[i].length} << 32U | i;
    std::ranges::sort(keys);
    std::vector<uint32_t> order(pieces.size());
    std::ranges::transform(keys, order.begin(),
                           [](uint64_t key) { return static_cast<uint32_t>(key); });
    return order;
}

void add_best_fit(std::span<const Piece> documents, OpenRows& rows, RowPlan& plan) {
    const std::vector<uint32_t> order = longest_first(documents);
    std::vector<uint32_t> row_of(documents.size());
    for (const uint32_t document : order) row_of[document] = rows.place(documents[document].length);

    std::vector<uint64_t> ends(rows.size(), 0);
    for (const uint32_t row : row_of) ++ends[row];
    std::inclusive_scan(ends.begin(), ends.end(), ends.begin());
    const uint64_t first = plan.pieces.size();
    for (const uint64_t end : ends) plan.row_starts.push_back(first + end);
    plan.pieces.resize(first + documents.size());
    for (auto last = order.rbegin(); last != order.rend(); ++last)
        plan.pieces[first + --ends[row_of[*last]]] = documents[*last];
    rows.clear();
}

void add_wrapped(std::span<const Piece> documents, uint32_t max_length, RowPlan& plan) {
    uint32_t filled = 0;
    for (Piece rest : documents) {
        while (rest.length > 0) {
            const uint32_t length = std::min(rest.length, max_length - filled);
            plan.pieces.push_back({rest.begin, length, filled == 0 ? 0U : 1U});
            rest = {rest.begin + length, rest.length - length};
            filled += length;
            if (filled == max_length) {
                plan.end_row();
                filled = 0;
            }
        }
    }
    if (filled > 0) plan.end_row();
}

}  // namespace

RowPlan pack(std::span<const Piece> documents, config::PackingStrategy strategy,
             uint32_t max_length, size_t problem_size) {
    // A max_length beyond the total changes no row, but takes memory for queues.
    uint64_t total = 1;
    for (const Piece& document : documents) total += document.length;
    max_length = static_cast<uint32_t>(std::min<uint64_t>(max_length, total));
    RowPlan plan;
    OpenRows rows(strategy == config::PackingStrategy::wrapped ? 0 : max_length);
    if (problem_size == 0) problem_size = std::max<size_t>(1, documents.size());
    for (size_t begin = 0; begin < documents.size(); begin += problem_size) {
        const auto problem =
            documents.subspan(begin, std::min(problem_size, documents.size() - begin));
        if (strategy == config::PackingStrategy::wrapped)
            add_wrapped(problem, max_length, plan);
        else
            add_best_fit(
                cut_to_fit(problem, max_length, strategy == config::PackingStrategy::bfd_split),
                rows, plan);
    }
    return plan;
}

}  // namespace ringshard::data
