#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringshard/comm/agree.hpp"
#include "ringshard/model/objective.hpp"

namespace ringshard::train {

// The time of a rank by its parts, in seconds. The time after the sums of a step counts with the
// next step.
struct RankTimes {
    double compute = 0;
    double comm_wait = 0;  // for other ranks
    double data_wait = 0;  // until it had its rows
};

// Requests and events that one rank finds and all ranks act on, as numbers that a step adds up over
// the ranks: above 0 where any rank found it. `finished_save`: ranks whose part of the save under
// way is done.
struct ControlFlags {
    double save_file = 0;       // save-now in output_dir
    double stop_file = 0;       // stop-now
    double warning_signal = 0;  // SIGUSR1
    double end_signal = 0;      // SIGTERM or SIGINT
    double time_limit = 0;      // is near
    double newer_attempt = 0;   // has taken the run over
    double finished_save = 0;
};

// The choices of the routers of a model, over all ranks and micro-batches.
struct RouterNumbers {
    bool has_aux_loss = false;
    double aux_loss = 0;            // that balances the experts, without its coefficient
    int64_t num_experts = 0;        // of a block; 0: the model has none
    std::vector<double> choices{};  // of each expert, of all blocks that have some
};

// The results of a step, over all ranks and micro-batches.
struct StepNumbers {
    int64_t step = 0;  // from 1
    double epoch = 0;
    double loss = 0;       // per target token, by their weights, nats
    double grad_norm = 0;  // before clipping
    double learning_rate = 0;
    double entropy = 0;
    double accuracy = 0;
    model::StatNames names{};  // of these two
    // The further numbers of the objective: their sums per unit of the weight of all targets, and
    // those of their divisors, 1 where that is all of it.
    struct OfObjective {
        std::string name;
        double sum;
        double divisor;
    };
    std::vector<OfObjective> of_objective{};
    RouterNumbers routers{};
    int64_t num_tokens = 0;     // of the run so far
    int64_t step_tokens = 0;    // of this step
    int64_t filler_tokens = 0;  // that were computed, so that sequences could be split
    double operations = 0;      // floating-point ones of the model, forward and backward
    // Pairs of a query and a key: of the rank of each ring that has most, and of a rank in the
    // mean, added up over rings and micro-batches; 0 where no ring splits sequences.
    double attention_work_worst = 0;
    double attention_work_mean = 0;
    double seconds = 0;
    std::vector<RankTimes> ranks{};
    int64_t rows = 0;
    std::set<std::string> attention{};  // operators of a GPU that attended on this rank
    ControlFlags flags{};
    // The loss or gradient is not finite, or there is no target, and the weights are as before.
    std::string skipped_because{};
    bool has_targets = true;
    bool asks_to_rewind = false;  // it is no step: the run has to go back and do it again
    std::optional<comm::AgreedFailure> ends_run{};  // it is no step either
    // The numbers of each learner, in their order; step 0 for one that has ended. Loss, entropy,
    // accuracy and rate of the step are means over them, and its norm is that of all gradients.
    std::vector<StepNumbers> learners{};

    bool is_skipped() const { return !skipped_because.empty(); }
    bool is_lost() const { return asks_to_rewind || ends_run; }
};

// A text that the model generated.
struct TextSample {
    std::string prompt;
    std::string text;        // that follows it
    int64_t num_tokens = 0;  // of that text, with the one that ends it
    bool has_ended = false;  // by the model, not by the limit of tokens
};

// The results of an evaluation: means over its target tokens.
struct EvaluationNumbers {
    double loss = 0;
    double entropy = 0;
    double accuracy = 0;
    model::StatNames names{};  // of these two
    int64_t rows = 0;
    int64_t batches = 0;
    double seconds = 0;
    std::string set{};  // name of the evaluation set; empty: the only one
    // Of pairs: the further numbers of their objective.
    std::vector<std::pair<std::string, double>> of_objective{};
};

}  // namespace ringshard::train
