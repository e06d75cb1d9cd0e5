#include "ulysses.hpp"

#include <algorithm>

namespace ringshard::attention {

namespace {

// Where the query, key and value heads of each rank lie in a row of qkv.
std::vector<std::vector<ColumnExchange::Columns>> columns_of_ranks(const HeadCounts& all,
                                                                   int64_t ranks) {
    const HeadCounts mine = heads_of_rank(all, ranks);
    const int64_t d = all.head_dim;
    const int64_t keys = all.query_heads * d;
    const int64_t values = keys + all.key_heads * d;
    std::vector<std::vector<ColumnExchange::Columns>> columns;
    for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t first = first_key_head(all, rank, ranks) * d;
        columns.push_back({{rank * mine.query_heads * d, mine.query_heads * d},
                           {keys + first, mine.key_heads * d},
                           {values + first, mine.key_heads * d}});
    }
    return columns;
}

}  // namespace

HeadCounts heads_of_rank(const HeadCounts& all, int64_t ranks) {
    return {all.query_heads / ranks, std::max<int64_t>(1, all.key_heads / ranks), all.head_dim};
}

HeadExchange::HeadExchange(const HeadCounts& heads, comm::Communicator& group, const Types& types)
    : all_(heads),
      mine_(heads_of_rank(heads, group.size())),
      columns_(columns_of_ranks(heads, group.size()), group, types) {}

}  // namespace ringshard::attention
