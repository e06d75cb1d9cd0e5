#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::prove {

// The numbers of logits that are compared, of documents whose tokens did not change, and of those
// how many moved.
struct Moved {
    int64_t compared = 0;
    int64_t moved = 0;
};

// What a run computes at one of its steps.
struct Moment {
    double loss = 0;
    double grad_norm = 0;                           // before clipping
    int64_t num_tokens = 0;                         // of the step
    std::map<std::string, at::Tensor> gradients{};  // whole, of every trained tensor
    Moved documents{};
};

// Of the steps 1 and 4: with the first weights, and after three steps.
constexpr int64_t steps_between = 3;
constexpr int64_t num_steps = steps_between + 1;
struct Outcome {
    std::array<Moment, 2> moments{};
    std::string failure{};  // that ended the run; empty: none
};

// A batch, and where its documents begin, with the end of the last: whatever the batch says.
struct Probe {
    data::FlatBatch batch;
    std::vector<int64_t> bounds;
};

struct SmallRun {
    const config::Config& config;
    const model::ModelSpec& spec;
    const comm::Group& group;
    const mesh::Mesh& mesh;
    const mesh::Mesh& gathering;  // the same, without its faults: puts the results together
    const data::Rows& rows;       // of the steps
    const Probe& probe;           // whose documents are changed one by one
    const std::function<void()>& made_progress;
    Faults* faults;  // of its steps; null: none
};

// Trains from random weights. Collective over the group.
Outcome train(const SmallRun& run);

}  // namespace ringshard::prove
