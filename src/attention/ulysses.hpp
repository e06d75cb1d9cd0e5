#pragma once

#include "column_exchange.hpp"
#include "ringshard/attention/sequence_attention.hpp"

namespace ringshard::attention {

// The exchange of tokens for heads. Every rank of the group holds some tokens with all heads; after
// the way in it holds all tokens of the group with its share of the heads. Where there are more
// ranks than key heads, several ranks get the same key head.
class HeadExchange {
public:
    using Types = ColumnExchange::Types;
    HeadExchange(const HeadCounts& heads, comm::Communicator& group, const Types& types);

    const HeadCounts& mine() const { return mine_; }  // the heads of this rank on the inside
    at::ScalarType exchange_type() const { return columns_.exchange_type(); }

    // [t, (h + 2 g) d] of this rank's tokens -> [group's t, (mine.h + 2 mine.g) d].
    at::Tensor qkv_in(const at::Tensor& qkv) const { return columns_.in(qkv); }
    // Back; gradients of key heads that several ranks hold are added up.
    at::Tensor qkv_gradient_out(const at::Tensor& d_qkv) const {
        return columns_.gradient_out(d_qkv,
                                     (all_.query_heads + 2 * all_.key_heads) * all_.head_dim);
    }
    // [t, h d] -> [group's t, mine.h d], and back.
    at::Tensor heads_in(const at::Tensor& heads) const { return columns_.parts_in(heads); }
    at::Tensor heads_out(const at::Tensor& heads) const { return columns_.parts_out(heads); }

private:
    HeadCounts all_;
    HeadCounts mine_;
    ColumnExchange columns_;
};

// The heads of one rank, and the first key head among them.
HeadCounts heads_of_rank(const HeadCounts& all, int64_t ranks);
inline int64_t first_key_head(const HeadCounts& all, int64_t rank, int64_t ranks) {
    return rank * all.key_heads / ranks;
}

}  // namespace ringshard::attention
