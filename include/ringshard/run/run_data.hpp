#pragma once

#include <optional>
#include <vector>

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/data/prepare.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/run/command_context.hpp"
#include "ringshard/run/eval_prompts.hpp"
#include "ringshard/run/run_adapters.hpp"
#include "ringshard/train/evaluator.hpp"

namespace ringshard::run {

// Rows without a target: training drops them, scores have them.
enum class RowsToKeep { with_targets, all };

// The rows of a run.
struct RunData {
    std::vector<data::Rows> training{};  // by learner
    struct EvaluationSet {
        train::Evaluator::Subject subject;
        data::Rows rows;
    };
    std::vector<EvaluationSet> evaluation{};  // where the settings ask for it
    std::optional<EvalPrompts> prompts{};
    int64_t longest_row = 0;  // tokens of one of training in a batch
};

// Sets RunData::longest_row, with the rows as batches will have them. Collective over the world.
void find_longest_row(const comm::Group& world, RunData& data);

// Returns the folders and threads that prepare rows.
data::PrepareResources prepare_resources(const CommandContext& context, int64_t threads,
                                         const HubCache& hub);

// Prepares the rows, or finds them in the cache, and checks them against the model; prints
// warnings. Collective over the world.
comm::Agreed<RunData> prepare_run_data(const CommandContext& context, const HubCache& hub,
                                       int64_t num_threads, const model::ModelSpec& spec,
                                       const std::vector<LearnerInJob>& learners,
                                       RowsToKeep keeps = RowsToKeep::with_targets);

// Fails if a step of embeddings has one row, and it has no negative.
std::optional<Failure> check_negatives(const config::Settings& settings, int64_t data_ranks,
                                       const RunData& data);

// Gives rows of single answers their baseline, if the loss has one. Fails (78) if a step has one
// row, of which there is no other answer.
std::optional<Failure> give_baselines(const config::Settings& settings, int64_t data_ranks,
                                      RunData& data);

// Fails (78) if dataloader_drop_last leaves out every row: there are fewer rows than all data ranks
// take in a batch.
std::optional<Failure> check_rows_are_dealt(const config::Settings& settings, int64_t num_rows,
                                            int64_t data_ranks);

}  // namespace ringshard::run
