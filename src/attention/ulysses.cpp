#include "ulysses.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "ringshard/base/error.hpp"

namespace ringshard::attention {

HeadExchange::HeadExchange(const HeadCounts& heads, comm::Communicator& group, const Types& types)
    : all_(heads),
      mine_{heads.query_heads / group.size(), std::max<int64_t>(1, heads.key_heads / group.size()),
            heads.head_dim},
      group_(group),
      compute_type_(types.compute),
      // What goes nowhere needs no other type.
      exchange_type_(group.size() == 1 ? types.compute : types.exchange.value_or(types.compute)) {}

std::array<HeadExchange::Columns, 3> HeadExchange::columns_of(int64_t rank) const {
    const int64_t d = all_.head_dim;
    const int64_t first_key_head = rank * all_.key_heads / group_.size();
    const int64_t keys = all_.query_heads * d;
    const int64_t values = keys + all_.key_heads * d;
    return {Columns{rank * mine_.query_heads * d, mine_.query_heads * d},
            Columns{keys + first_key_head * d, mine_.key_heads * d},
            Columns{values + first_key_head * d, mine_.key_heads * d}};
}

// parts [ranks, t, columns] in the travel type: part r goes to rank r, and comes back as what rank
// r had for this one.
at::Tensor HeadExchange::exchange(const at::Tensor& parts) const {
    at::Tensor received = at::empty_like(parts);
    group_.all_to_all(received, parts).wait();
    return received;
}

at::Tensor HeadExchange::qkv_in(const at::Tensor& qkv) const {
    if (group_.size() == 1) return qkv;
    const int64_t width = (mine_.query_heads + 2 * mine_.key_heads) * mine_.head_dim;
    const at::Tensor parts =
        at::empty({group_.size(), qkv.size(0), width}, qkv.options().dtype(exchange_type_));
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
        int64_t column = 0;
        for (const auto& [begin, length] : columns_of(rank)) {
            parts[rank].narrow(1, column, length).copy_(qkv.narrow(1, begin, length));
            column += length;
        }
    }
    return exchange(parts).view({-1, width}).to(compute_type_);
}

at::Tensor HeadExchange::qkv_gradient_out(const at::Tensor& d_qkv) const {
    if (group_.size() == 1) return d_qkv;
    const at::Tensor parts = exchange(d_qkv.view({group_.size(), -1, d_qkv.size(1)}));
    const at::Tensor sum =
        at::zeros({parts.size(1), (all_.query_heads + 2 * all_.key_heads) * all_.head_dim},
                  d_qkv.options().dtype(at::kFloat));
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
        int64_t column = 0;
        for (const auto& [begin, length] : columns_of(rank)) {
            sum.narrow(1, begin, length).add_(parts[rank].narrow(1, column, length));
            column += length;
        }
    }
    return sum.to(compute_type_);
}

at::Tensor HeadExchange::heads_in(const at::Tensor& heads) const {
    if (group_.size() == 1) return heads;
    const int64_t width = mine_.query_heads * mine_.head_dim;
    const at::Tensor by_rank = heads.to(exchange_type_)
                                   .view({heads.size(0), group_.size(), width})
                                   .transpose(0, 1)
                                   .contiguous();
    return exchange(by_rank).view({-1, width}).to(compute_type_);
}

at::Tensor HeadExchange::heads_out(const at::Tensor& heads) const {
    if (group_.size() == 1) return heads.to(compute_type_);
    const int64_t width = mine_.query_heads * mine_.head_dim;
    const at::Tensor by_rank = exchange(heads.to(exchange_type_).view({group_.size(), -1, width}));
    return by_rank.transpose(0, 1).to(compute_type_).reshape({-1, group_.size() * width});
}

}  // namespace ringshard::attention
