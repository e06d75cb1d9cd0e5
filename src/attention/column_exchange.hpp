#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ringshard/comm/communicator.hpp"

namespace ringshard::attention {

// The exchange of tokens for columns. Every rank of the group holds some tokens with all columns;
// after the way in it holds all tokens of the group with its own columns, some of which other ranks
// may have too.
class ColumnExchange {
public:
    struct Types {
        at::ScalarType compute;
        std::optional<at::ScalarType> exchange;  // or that of the computation
    };
    struct Columns {
        int64_t begin;
        int64_t length;
    };
    // of_ranks: the columns of each rank, equally many for all.
    ColumnExchange(std::vector<std::vector<Columns>> of_ranks, comm::Communicator& group,
                   const Types& types);

    // The type in which columns are sent; a caller may compute them in it. Received columns are of
    // the type of the computation.
    at::ScalarType exchange_type() const { return exchange_type_; }
    const std::vector<Columns>& mine() const;

    // [t, all columns] of this rank's tokens -> [group's t, its columns].
    at::Tensor in(const at::Tensor& rows) const;
    // Back; gradients of columns that several ranks hold are added up.
    at::Tensor gradient_out(const at::Tensor& d_rows, int64_t all_columns) const;
    // Exchange rows of which every rank has an equal part: [t, columns] -> [group's t, columns /
    // ranks], and back.
    at::Tensor parts_in(const at::Tensor& rows) const;
    at::Tensor parts_out(const at::Tensor& rows) const;

private:
    at::Tensor exchange(const at::Tensor& parts) const;

    std::vector<std::vector<Columns>> of_ranks_;
    int64_t width_ = 0;  // columns of a rank
    comm::Communicator& group_;
    at::ScalarType compute_type_;
    at::ScalarType exchange_type_;
};

}  // namespace ringshard::attention
