#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

#include "ringshard/attention/sequence_attention.hpp"

namespace ringshard::attention {

// The exchange of tokens for heads. Every rank of the group holds some tokens with all heads; after
// the way in it holds all tokens of the group with its share of the heads. Where there are more
// ranks than key heads, several ranks get the same key head.
class HeadExchange {
public:
    struct Types {
        at::ScalarType compute;
        std::optional<at::ScalarType> exchange;  // or that of the computation
    };
    HeadExchange(const HeadCounts& heads, comm::Communicator& group, const Types& types);

    const HeadCounts& mine() const { return mine_; }  // the heads of this rank on the inside
    // In which heads leave this rank: what is made to be sent may be made in it. Whatever arrives
    // is of the type of the computation.
    at::ScalarType exchange_type() const { return exchange_type_; }

    // [t, (h + 2 g) d] of this rank's tokens -> [group's t, (mine.h + 2 mine.g) d].
    at::Tensor qkv_in(const at::Tensor& qkv) const;
    // Back; gradients of key heads that several ranks hold are added up.
    at::Tensor qkv_gradient_out(const at::Tensor& d_qkv) const;
    // [t, h d] -> [group's t, mine.h d], and back.
    at::Tensor heads_in(const at::Tensor& heads) const;
    at::Tensor heads_out(const at::Tensor& heads) const;

private:
    struct Columns {
        int64_t begin;
        int64_t length;
    };
    // Where the query, key and value heads of a rank lie in a row of qkv.
    std::array<Columns, 3> columns_of(int64_t rank) const;
    at::Tensor exchange(const at::Tensor& parts) const;

    HeadCounts all_;
    HeadCounts mine_;
    comm::Communicator& group_;
    at::ScalarType compute_type_;
    at::ScalarType exchange_type_;
};

}  // namespace ringshard::attention
