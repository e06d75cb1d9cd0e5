#include "column_exchange.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

namespace ringshard::attention {

ColumnExchange::ColumnExchange(std::vector<std::vector<Columns>> of_ranks,
                               comm::Communicator& group, const Types& types)
    : of_ranks_(std::move(of_ranks)),
      group_(group),
      compute_type_(types.compute),
      // Columns that stay here keep their type.
      exchange_type_(group.size() == 1 ? types.compute : types.exchange.value_or(types.compute)) {
    for (const Columns& columns : of_ranks_.front()) width_ += columns.length;
}

const std::vector<ColumnExchange::Columns>& ColumnExchange::mine() const {
    return of_ranks_.at(static_cast<size_t>(group_.rank()));
}

// Exchanges parts [ranks, t, columns] in the type of the exchange: part p of this rank goes to rank
// p, and part r of the result comes from rank r.
at::Tensor ColumnExchange::exchange(const at::Tensor& parts) const {
    at::Tensor received = at::empty_like(parts);
    group_.all_to_all(received, parts).wait();
    return received;
}

at::Tensor ColumnExchange::in(const at::Tensor& rows) const {
    if (group_.size() == 1) return rows;
    const at::Tensor parts =
        at::empty({group_.size(), rows.size(0), width_}, rows.options().dtype(exchange_type_));
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
        int64_t column = 0;
        for (const auto& [begin, length] : of_ranks_[static_cast<size_t>(rank)]) {
            parts[rank].narrow(1, column, length).copy_(rows.narrow(1, begin, length));
            column += length;
        }
    }
    return exchange(parts).view({-1, width_}).to(compute_type_);
}

at::Tensor ColumnExchange::gradient_out(const at::Tensor& d_rows, int64_t all_columns) const {
    if (group_.size() == 1) return d_rows;
    const at::Tensor parts = exchange(d_rows.view({group_.size(), -1, d_rows.size(1)}));
    const at::Tensor sum =
        at::zeros({parts.size(1), all_columns}, d_rows.options().dtype(at::kFloat));
    for (int64_t rank = 0; rank < group_.size(); ++rank) {
        int64_t column = 0;
        for (const auto& [begin, length] : of_ranks_[static_cast<size_t>(rank)]) {
            sum.narrow(1, begin, length).add_(parts[rank].narrow(1, column, length));
            column += length;
        }
    }
    return sum.to(compute_type_);
}

at::Tensor ColumnExchange::parts_in(const at::Tensor& rows) const {
    if (group_.size() == 1) return rows;
    const int64_t width = rows.size(1) / group_.size();
    const at::Tensor by_rank = rows.to(exchange_type_)
                                   .view({rows.size(0), group_.size(), width})
                                   .transpose(0, 1)
                                   .contiguous();
    return exchange(by_rank).view({-1, width}).to(compute_type_);
}

at::Tensor ColumnExchange::parts_out(const at::Tensor& rows) const {
    if (group_.size() == 1) return rows.to(compute_type_);
    const int64_t width = rows.size(1);
    const at::Tensor by_rank = exchange(rows.to(exchange_type_).view({group_.size(), -1, width}));
    return by_rank.transpose(0, 1).to(compute_type_).reshape({-1, group_.size() * width});
}

}  // namespace ringshard::attention
