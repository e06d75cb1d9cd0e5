#pragma once

#include <vector>

#include "ringshard/comm/group.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/token_batch.hpp"

namespace ringshard::train {

// A document of a step.
struct StepDocument {
    int64_t row = 0;      // of the rows of training
    int64_t place = 0;    // of its first token in the row
    int64_t targets = 0;  // tokens
    double loss = 0;      // sum over these, each times its weight
    // Sum of the squares of the gradients of its rows at the input of the head.
    double gradient_squares = 0;
};

// The losses and gradients of the documents of a step. It keeps the statistics of tokens that the
// head has written, and adds them up only for a step that is logged.
class StepDocuments {
public:
    explicit StepDocuments(const mesh::Mesh& mesh) : mesh_(mesh) {}

    void begin_step() { micro_batches_.clear(); }
    // Takes note of the documents of a micro-batch, as all ranks of the sequence have it.
    void add(const data::FlatBatch& batch);
    // Lets the backward pass write the gradients of this rank's targets, of the batch added last.
    void watch(model::TokenBatch& mine);
    // The statistics of the targets of all micro-batches.
    void take(const std::vector<at::Tensor>& token_stats);

    // Returns the documents with targets on the root, in the order of data ranks and micro-batches.
    // Collective over the world.
    std::vector<StepDocument> gather(const comm::Group& world) const;

private:
    struct MicroBatch {
        std::vector<data::FlatBatch::RowStart> documents;
        std::vector<size_t> document_of_target;  // of each of this rank's targets
        at::Tensor token_stats;                  // [n, Objective::numbers_per_token]
        at::Tensor gradient_norms;               // [n]
    };
    const mesh::Mesh& mesh_;
    std::vector<MicroBatch> micro_batches_;
};

}  // namespace ringshard::train
