#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "probe_rows.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/train/numbers.hpp"
#include "test_model.hpp"

namespace ringshard::test {

using prove::make_rows;
using prove::RowKind;

// A training run of some steps in one layout.
struct LayoutRun {
    std::filesystem::path model;
    mesh::Cuts cuts{};
    mesh::MeshShape shape{};
    at::ScalarType compute = at::kFloat;
    std::optional<at::ScalarType> residual{};
    const ops::Gemms* gemms = nullptr;  // null: by rule
    config::ActivationPolicies policies = config::ActivationPolicy::attention;
    attention::ContextParallelOptions context_parallel{};
    int64_t accumulation = 1;
    int64_t rows_per_device = 1;
    int64_t num_steps = 10;
    std::string freeze{};  // as the setting
    std::optional<peft::LoraConfig> adapters{};
    shard::Codec frozen_form = shard::Codec::compute;
    std::optional<model::Chunks> chunks{};
    std::optional<model::Fp8Options> fp8{};
    std::optional<model::DelayedScaling::Options> delayed_scaling{};
    double learning_rate = 2e-3;
    double adam_epsilon = 1e-8;
};

struct Outcome {
    std::vector<train::StepNumbers> steps;
    double eval_loss = 0;  // over all rows, after the last step
    std::map<std::string, at::Tensor> weights;
    std::string maxima{};  // of delayed scaling, as a checkpoint has them
};

// Collective over the group.
Outcome train(const comm::Group& group, const LayoutRun& layout, const data::Rows& rows);

// As docs/contract.md, section 4 has it, between fp32 runs.
void expect_equal(const Outcome& outcome, const Outcome& reference);
// Losses of runs in bf16: they scatter and do not drift.
void expect_no_drift(const Outcome& outcome, const Outcome& reference);

}  // namespace ringshard::test
