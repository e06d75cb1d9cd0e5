#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/train/numbers.hpp"
#include "ringshard/train/reference_log_probs.hpp"

namespace ringshard::train {

// Runs an evaluation set of a learner through the model, every row once at any layout.
class Evaluator {
public:
    struct Subject {
        size_t learner = 0;
        std::string set{};       // its name; empty: the only one
        double temperature = 1;  // of similarities, if rows are texts
    };
    // batch_size: rows per data rank and batch.
    Evaluator(Subject subject, data::Rows rows, int64_t batch_size, const comm::Group& world,
              const mesh::Mesh& mesh, const model::Transformer& model)
        : subject_(std::move(subject)),
          rows_(std::move(rows)),
          batch_size_(batch_size),
          world_(world),
          mesh_(mesh),
          model_(model) {}

    size_t learner() const { return subject_.learner; }
    const data::Rows& rows() const { return rows_; }
    // For rows of answers, before the first evaluation.
    void give_reference(ReferenceLogProbs reference) { reference_ = std::move(reference); }

    // Calls `before_batch` with the operations of the slowest rank, as if there were a backward
    // pass. Collective over the world.
    EvaluationNumbers evaluate(const std::function<void(double)>& before_batch) const;

private:
    int64_t num_rounds() const;
    std::vector<int64_t> rows_of_round(int64_t round) const;  // of this rank
    data::FlatBatch batch_of_round(int64_t round) const;
    std::vector<double> count_longest() const;
    model::TokenBatch tokens_of_round(data::FlatBatch batch, const model::AllPairs& pairs) const;
    // Of texts, whose anchors are compared with all texts of the set.
    EvaluationNumbers compare_texts(const std::function<void(double)>& before_batch) const;
    // As far as the loss depends on them. Collective over the world.
    model::AllPairs all_pairs() const;

    Subject subject_;
    data::Rows rows_;
    int64_t batch_size_;
    const comm::Group& world_;
    const mesh::Mesh& mesh_;
    const model::Transformer& model_;
    ReferenceLogProbs reference_;  // of rows of answers
};

}  // namespace ringshard::train
