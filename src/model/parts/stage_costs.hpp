#pragma once

#include <map>
#include <string>
#include <vector>

#include "projection.hpp"
#include "ringshard/model/operations.hpp"

namespace ringshard::model {

// About so many times the host reads or writes the residual stream and a feed-forward's rows.
constexpr double passes_of_host = 14;

// What the stages of a block cost, for one token and one policy.
struct StageCosts {
    config::ActivationPolicy policy;
    std::vector<ProductUse> products{};
    // Operations for a query and a key that it sees, of the passes forward.
    std::map<attention::Mask, Operations::OfPair> pairs{};
    std::map<std::string, Operations::OfRows> rows{};
    double rows_of_host = 0;

    // Adds numbers that kernels read and write on a GPU. kernels: words of their names.
    void add_rows(const char* name, double numbers, std::vector<std::string> kernels) {
        Operations::OfRows& part = rows[name];
        part.numbers += numbers;
        part.kernels = std::move(kernels);
    }
    void add_pairs(const attention::Mask& mask, const Operations::OfPair& more);
    // Returns the operations of the passes forward, with their sums.
    Operations operations() const;
};

// The product of a causal convolution with few taps.
ProductUse convolution(double operations, bool is_made_again);

// The scores and sums of values of all heads, which together are so wide. merged: numbers of a
// token that each step of a ring adds to.
Operations::OfPair attention_of(double width, bool is_made_again, double merged);

}  // namespace ringshard::model
