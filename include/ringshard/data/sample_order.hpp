#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "ringshard/config/data_settings.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh_shape.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::data {

// How the rows of an epoch are dealt out: TRL's rule. The order of epoch e is a permutation seeded
// with seed + e, the same for everybody; it is cut into batches, and batch i goes to data rank i
// mod num_ranks. On several ranks it is first made to divide: by samples from its own beginning,
// which are trained on again, or by leaving out its end.
struct SamplerOptions {
    int64_t num_rows = 0;
    int64_t batch_size = 1;
    int64_t num_ranks = 1;
    int64_t seed = 0;
    config::SamplingStrategy strategy = config::SamplingStrategy::random;
    bool drop_last = false;
    // Rows of like length stand together, in groups of this many: lengths of all rows. Only for
    // group_by_length, whose epochs follow each other in one generator.
    int64_t group_size = 1;
    std::vector<uint32_t> lengths = {};
    // Flattened batches are counted as if filled up to a multiple of this; 0: as they are.
    int64_t counts_padding_to = 0;

    int64_t batches_per_rank() const;
};

SamplerOptions sampler_options(const config::Config& config, const Rows& rows,
                               const mesh::MeshShape& shape);

// Row numbers in the order of one epoch, made to divide. Every rank holds one: 4 bytes a row (8
// from 2^31 rows on), also while it is drawn; nothing where rows follow each other as in the data.
class EpochOrder {
public:
    EpochOrder(const SamplerOptions& sampler, int64_t epoch);

    int64_t size() const { return size_; }
    int64_t operator[](int64_t place) const;
    // Row numbers of the places from `begin` up to `end`.
    std::vector<int64_t> part(int64_t begin, int64_t end) const;
    int64_t bytes() const;

private:
    int64_t num_rows_;
    int64_t size_;  // with the rows that are repeated, or without those that are left out
    int64_t first_round_ = 0;  // rows of it, which are repeated
    std::variant<std::monostate, std::vector<int32_t>, std::vector<int64_t>> drawn_;
};

// The permutation of an epoch before it is made to divide; random and group_by_length alone.
// Number: int32_t or int64_t, which give the same rows.
template <class Number>
std::vector<Number> draw_order(const SamplerOptions& sampler, int64_t epoch);

}  // namespace ringshard::data
