#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/rows.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::data {

// How ranks share the rows of an epoch, by TRL's rule. The order of epoch e is a permutation with
// seed + e, the same on every rank; batch i of it goes to data rank i mod num_ranks. With several
// ranks the order is first made divisible: samples from its beginning repeat at its end, or its end
// is dropped.
struct SamplerOptions {
    int64_t num_rows = 0;
    int64_t batch_size = 1;
    int64_t num_ranks = 1;
    int64_t seed = 0;
    config::SamplingStrategy strategy = config::SamplingStrategy::random;
    bool drop_last = false;
    // Groups rows of similar length, this many at a time. `lengths`: of all rows. Only for
    // group_by_length, whose epochs continue one random generator.
    int64_t group_size = 1;
    std::vector<uint32_t> lengths = {};
    // Count flattened batches as if padded to a multiple of this; 0: without padding.
    int64_t counts_padding_to = 0;

    int64_t batches_per_rank() const;
};

SamplerOptions sampler_options(const config::Config& config, const Rows& rows,
                               int64_t num_data_ranks);

// Row numbers in the order of one epoch, made divisible. Every rank holds them: 4 bytes a row (8
// from 2^31 rows on), also during the shuffle; none for sequential order.
class EpochOrder {
public:
    EpochOrder(const SamplerOptions& sampler, int64_t epoch);

    int64_t size() const { return size_; }
    int64_t operator[](int64_t place) const;
    // Returns the row numbers at the places from `begin` to `end` (exclusive).
    std::vector<int64_t> part(int64_t begin, int64_t end) const;
    int64_t bytes() const;

private:
    int64_t num_rows_;
    int64_t size_;             // including repeated rows, excluding dropped ones
    int64_t first_round_ = 0;  // rows of the first round, which repeat
    std::variant<std::monostate, std::vector<int32_t>, std::vector<int64_t>> drawn_;
};

// Returns the permutation of an epoch before it is made divisible; for random and group_by_length.
// Number: int32_t or int64_t, with the same result.
template <class Number>
std::vector<Number> draw_order(const SamplerOptions& sampler, int64_t epoch);

}  // namespace ringshard::data
