#include "ringshard/data/token_rows.hpp"

#include <numeric>

namespace ringshard::data {

namespace {

constexpr int32_t no_target = -100;

template <class Value>
void append(std::vector<Value>& to, std::span<const Value> from) {
    to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void TokenRows::add(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                    std::span<const int32_t> document_lengths) {
    RINGSHARD_CHECK(tokens.size() == labels.size());
    RINGSHARD_CHECK(std::accumulate(document_lengths.begin(), document_lengths.end(), size_t{0}) ==
                    tokens.size());
    append(tokens_, tokens);
    append(document_lengths_, document_lengths);
    size_t begin = 0;
    for (const int32_t length : document_lengths) {
        const size_t end = begin + static_cast<size_t>(length);
        for (size_t t = begin; t < end; ++t)
            targets_.push_back(t + 1 < end ? labels[t + 1] : no_target);
        begin = end;
    }
    row_starts_.push_back(static_cast<int64_t>(tokens_.size()));
    document_starts_.push_back(static_cast<int64_t>(document_lengths_.size()));
}

RowView TokenRows::operator[](int64_t row) const {
    const auto part = [row](const std::vector<int32_t>& values,
                            const std::vector<int64_t>& starts) {
        const auto begin = static_cast<size_t>(starts[static_cast<size_t>(row)]);
        return std::span(values).subspan(
            begin, static_cast<size_t>(starts[static_cast<size_t>(row) + 1]) - begin);
    };
    RINGSHARD_CHECK(row >= 0 && row < size());
    return {part(tokens_, row_starts_), part(targets_, row_starts_),
            part(document_lengths_, document_starts_)};
}

}  // namespace ringshard::data
