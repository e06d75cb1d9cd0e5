#pragma once

#include <functional>
#include <optional>

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/data/score_file.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"

namespace ringshard::train {

// Computes the log-probability of every token of rows. Each data rank has consecutive rows, with
// about equally many tokens.
class Scorer {
public:
    struct Options {
        int64_t batch_size;      // rows per data rank and batch
        int64_t top_k;           // number of most likely tokens to return for each
        double temperature = 1;  // of their log-probabilities
    };
    Scorer(const data::Rows& rows, const Options& options, const comm::Group& world,
           const mesh::Mesh& mesh, const model::Transformer& model);

    struct Hooks {
        // Gets the operations of the slowest rank, as if there were a backward pass.
        std::function<void(double)> before_batch;
        // Gets the rows of a batch, in their order, on the first rank of every sequence group.
        std::function<std::optional<Failure>(const data::ScoredRows&)> take;
    };
    struct Sums {
        int64_t rows = 0;
        int64_t tokens = 0;          // with a probability: all but the first of a document
        double log_probability = 0;  // of these
        int64_t learned_tokens = 0;
        double learned_log_probability = 0;
    };
    // Ends soon after `take` has failed on a rank. Collective over the world.
    comm::Agreed<Sums> score(const Hooks& hooks) const;

private:
    std::vector<int64_t> rows_of_round(int64_t round) const;  // of this rank
    data::ScoredRows score_batch(const std::vector<int64_t>& numbers) const;

    const data::Rows& rows_;
    Options options_;
    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    const model::Transformer& model_;
    std::vector<int64_t> first_rows_;  // of each data rank, and the number of all
};

}  // namespace ringshard::train
